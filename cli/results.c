#include "cli/options.h"
int results_main(const verb *v, const char *program, int argc, char **argv) { (void)v;(void)program;(void)argc;(void)argv; return 0; }
