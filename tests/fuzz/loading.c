#include "tests/fuzz/loading.h"

#include "datasets/dataset.h"
#include "tests/fuzz/fuzz.h"

qg_loader_spec fuzz_loading(uint8_t choice)
{
    qg_loader_spec s = { .batch = 1 + choice % 4,
                         .seed = choice,
                         .normalise.kind = (qg_normalise_kind)(choice / 4 % 5) };
    if (s.normalise.kind == QG_TO_RANGE) s.normalise.low = -1, s.normalise.high = (float)(choice % 3);
    if (choice & 32)
        s.augment = (qg_augment){ .pad = choice % 4, .border = (qg_border)(choice % 3), .flip = true };
    if (choice & 64) s.augment.cutout = choice % 8;
    if (choice & 8) s.augment.rotate = choice, s.augment.scale = (float)(choice % 5) / 8;
    s.in_order = choice & 128;
    return s;
}

void fuzz_load(qg_loader *l)
{
    enum { MOST_BATCHES = 4 };
    if (!fuzz_got(l)) return;
    const qg_shape set    = qg_loader_shape(l);
    const uint64_t digest = qg__loader_digest(l);
    qg_batch       b;
    for (int epoch = 0; epoch < 2; epoch++) {
        int images = 0, batches = 0;
        while (batches < MOST_BATCHES && qg_loader_next(l, &b)) {
            MUST(b.x.shape.n >= 1 && b.x.shape.h == set.h && b.x.shape.w == set.w && b.x.shape.c == set.c);
            fuzz_touch(b.x.data, qg_count(b.x.shape) * sizeof *b.x.data);
            for (int i = 0; i < b.x.shape.n; i++) MUST(b.y[i] < qg_loader_classes(l));
            images += b.x.shape.n, batches++;
        }
        MUST(images <= set.n && (batches == MOST_BATCHES || images == set.n));
        MUST(!qg_loader_seek(l, (uint64_t)epoch + 1, 0));
    }
    MUST(digest == qg__loader_digest(l));
}
