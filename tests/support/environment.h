/* tests/support/environment.h — variables that a test changes, and gives back as its caller had them. */
#ifndef ENVIRONMENT_H
#define ENVIRONMENT_H

#include "core/kernels/cpu.h"

/* NULL: removes it. */
void set_variable(const char *name, const char *value);

/* The teardown of every test that changes one: each variable is what it was before the test. */
int  restore_variables(void **state);

/* The paths of core/kernels/cpu.h, the narrowest first.  use_path(i) sets QGRAD_CPU, and a path that the machine does not
 * have is the widest that it has. */
enum { PATHS = 3 };
void use_path(int i);

/* The widest that the machine has, whatever QGRAD_CPU says. */
qg_isa widest_path(void);

#endif
