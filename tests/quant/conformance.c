/* tests/quant/conformance.c — the library against files of test vectors.
 *
 *     conformance FILE.json...
 *
 * One line per failure, then "N passed, M failed" over all files.  The status is 0 only if
 * something passed and nothing failed.
 */
#include "tests/support/cases.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    case_count sum = { 0, 0 };
    for (int i = 1; i < argc; i++) {
        const case_count n = case_run_file(argv[i]);
        sum.passed += n.passed;
        sum.failed += n.failed;
    }
    printf("%d passed, %d failed\n", sum.passed, sum.failed);
    return sum.passed > 0 && sum.failed == 0 ? 0 : 1;
}
