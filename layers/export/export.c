#include "layers/export/writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/utf8.h"
#include "layers/plan.h"

static qg_status check_spec(const qg_net *net, qg_export_spec spec)
{
    const long long c = net->spec.channels, row = c * net->spec.height * net->spec.width;
    if (!spec.numbers && !spec.floats_only)
        return qg_fail(QG_EARG, "export: the spec does not say how images of bytes are normalised: set .numbers, .mean and "
                       ".deviation, which qg_preprocess_numbers gives, or .floats_only");
    if (spec.numbers && spec.floats_only)
        return qg_fail(QG_EARG, "export: %d means and deviations, but a net of floats_only normalises nothing", spec.numbers);
    if (spec.numbers && spec.numbers != 1 && spec.numbers != c && spec.numbers != row)
        return qg_fail(QG_EARG, "export: %d means and deviations, must be 1, %lld or %lld", spec.numbers, c, row);
    if (spec.numbers && (!spec.mean || !spec.deviation)) return qg__fail_null(QG_EARG, spec.mean ? "deviation" : "mean");
    for (int i = 0; i < spec.numbers; i++)
        if (!isfinite(spec.mean[i]) || !isfinite(spec.deviation[i]) || !(spec.deviation[i] > 0))
            return qg_fail(QG_EARG,
                           "export: mean %g and deviation %g of number %d must be finite, and the deviation positive",
                           (double)spec.mean[i], (double)spec.deviation[i], i);
    if (spec.notes > 0 && !spec.note) return qg__fail_null(QG_EARG, "export: note");
    for (int i = 0; i < spec.notes; i++) {
        const qg_note n = spec.note[i];
        if (!n.key || !n.value || !*n.key || !qg__utf8_valid(n.key, strlen(n.key)) ||
            !qg__utf8_valid(n.value, strlen(n.value)))
            return qg_fail(QG_EARG, "export: note %d is empty or not UTF-8", i);
    }
    return QG_OK;
}

static qg__writer *const writers[] = {
    [QG_EXPORT_PACKED] = qg__write_packed, [QG_EXPORT_ONNX] = qg__write_onnx, [QG_EXPORT_C] = qg__write_c
};

enum { FORMATS = sizeof writers / sizeof *writers };

qg_status qg_export_bytes(const qg_net *net, qg_export_spec spec, unsigned char **file, size_t *bytes)
{
    if ((unsigned)spec.format >= FORMATS) return qg_fail(QG_EARG, "export: there is no format %d", (int)spec.format);
    qg__records s;
    qg_status   status = qg__records_of(net, qg__step_given(spec.step), false, &s);
    if (!status) status = check_spec(net, spec);
    if (!status) status = writers[spec.format](net, &s, spec, file, bytes);
    qg__records_free(&s);
    return status;
}

qg_status qg_export(const qg_net *net, const char *path, qg_export_spec spec)
{
    unsigned char  *file   = NULL;
    size_t          bytes  = 0;
    const qg_status status = path ? qg_export_bytes(net, spec, &file, &bytes) : qg_fail(QG_EARG, "export: the path is NULL");
    if (status) return status;
    qg_file *to = qg__file_begin_in(QG_BY_PATH, path);
    qg__file_put(to, file, bytes);
    free(file);
    return qg__file_commit(to);
}
