#include "tests/support/cases.h"

const case_op tf_cases[] = {
    { NULL, NULL },
};
