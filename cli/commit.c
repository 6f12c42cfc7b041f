#include "cli/commit.h"

#ifndef QGRAD_COMMIT                /* the Makefile says */
#define QGRAD_COMMIT "unknown"
#endif

const char *build_commit(void) { return QGRAD_COMMIT; }
