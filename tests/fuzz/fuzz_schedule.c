/* Texts of learning rate schedules. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/schedule.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char       *text = fuzz_text(bytes, n);
    qg_schedule s, again;
    memset(&s, 0xA5, sizeof s);
    memcpy(&again, &s, sizeof s);
    if (fuzz_ok(qg_schedule_parse(text, &s))) {
        char      printed[256], other[256];
        const int length = qg_schedule_print(&s, printed, sizeof printed);
        MUST(length >= 0 && length < (int)sizeof printed);
        MUST(!qg_schedule_parse(printed, &again));
        qg_schedule_print(&again, other, sizeof other);
        MUST(!strcmp(printed, other));
        for (int i = -1; i <= 17; i++) {
            const double progress = i / 16.0, lr = qg_schedule_lr(&s, 0.1, progress);
            MUST(lr >= 0 && !isnan(lr));
            MUST(lr == qg_schedule_lr(&again, 0.1, progress));
        }
    } else MUST(!memcmp(&s, &again, sizeof s));         /* untouched */
    free(text);
    return 0;
}
