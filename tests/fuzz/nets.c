#include "tests/fuzz/nets.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/packed.h"

double fuzz_work(const qg__file *f)
{
    double work = (double)f->h * f->w * f->c;
    for (int i = 0; i < f->steps; i++) {
        const qg__packed_step r = qg__file_step(f, i);
        const double results = (double)r.oh * r.ow * r.oc, taps = r.kh ? (double)r.kh * r.kw : 1;
        work += results * taps * (r.kind == QG__PRODUCT ? (double)r.c / r.groups : 1) +
                (double)r.h * r.w * r.c;
    }
    return work;
}

uint8_t *fuzz_sealed(const uint8_t *bytes, size_t n)
{
    uint8_t *file = malloc(n);
    MUST(file);
    memcpy(file, bytes, n);
    memcpy(file, "\x89qgnet\r\n", 8);
    packed_put(file + 16, (uint32_t)n);
    packed_put(file + 20, 0);
    packed_seal(file, n);
    return file;
}
