#include "tests/support/cases.h"

const case_op paper_cases[] = {
    { NULL, NULL },
};
