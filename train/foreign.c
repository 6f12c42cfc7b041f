/* Which array of another program's file is which parameter of a net, and where each number goes.
 *
 * Both sides are lists of parts: layers of the net, and modules of the file, whose arrays have one
 * name up to the last dot. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/paths.h"
#include "core/io/safetensors.h"
#include "core/io/utf8.h"
#include "layers/plan.h"
#include "train/reader.h"

/* The arrays of a part: ours come first, then those of PyTorch, Keras and Flax. */
enum slot { WEIGHT, BIAS, MEAN, VARIANCE, X_SHIFT, Y_SHIFT, SLOTS };

static const char *const names[SLOTS][7] = {
    [WEIGHT] = { "weight", "gamma", "slope", "kernel", "scale", "alpha" },
    [BIAS] = { "bias", "beta" },
    [MEAN] = { "running_mean", "moving_mean", "mean" },
    [VARIANCE] = { "running_var", "moving_variance", "var" },
    [X_SHIFT] = { "x_shift" },
    [Y_SHIFT] = { "y_shift" },
};

typedef struct module {
    const char           *name;
    size_t                length;           /* of its name */
    const qg_named_array *slot[SLOTS];      /* NULL: none */
    bool                  taken;
} module;

typedef struct part {                       /* a layer with parameters */
    const char       *name;
    qg_layer         *layer;
    const qg_product *product;              /* or NULL */
    qg_param         *slot[SLOTS];
    module           *from;                 /* NULL: none yet */
} part;

enum { MISFITS_BYTES = 1 << 14 };

typedef struct foreign {
    const qg_run_import_spec *spec;
    const char               *path;
    const qg_net             *net;
    qg_archive               *archive;
    part                     *part;
    module                   *module;
    size_t                    parts, modules;
    char                      misfits[MISFITS_BYTES];   /* a list, cut as messages are */
} foreign;

QG_PRINTF(2, 3)
static void misfit(foreign *f, const char *fmt, ...)
{
    const size_t used = strlen(f->misfits);
    va_list      args;
    va_start(args, fmt);
    if (used + 3 < MISFITS_BYTES) {
        strcpy(f->misfits + used, used ? ", " : "");
        vsnprintf(f->misfits + used + (used ? 2 : 0), MISFITS_BYTES - used - 2, fmt, args);
    }
    va_end(args);
}

/* --- both lists ----------------------------------------------------------------------------- */

/* The slot of an array whose name ends so; SLOTS: none. */
static int slot_of(const char *end)
{
    int s = 0;
    for (; s < SLOTS; s++)
        for (const char *const *name = names[s]; *name; name++)
            if (!strcmp(*name, end)) return s;
    return s;
}

static qg_status list_parts(foreign *f)
{
    const qg_params *p = qg_net_params(f->net);
    const int        n = qg_net_layers(f->net);
    f->part            = calloc((size_t)n + 1, sizeof *f->part);
    if (!f->part) return qg_fail(QG_EMEM, "%s: out of memory for %d layers", f->path, n);
    for (int i = 0, k = 0; i < n; i++) {
        qg_layer    *l      = qg_net_layer(f->net, i);
        const size_t length = strlen(l->name);
        const int    first  = k;
        part         to     = { .name = l->name, .layer = l, .product = qg_layer_product(l) };
        for (; k < p->count && !strncmp(p->item[k]->name, l->name, length) &&
               p->item[k]->name[length] == '.';
             k++) {
            const int s = slot_of(p->item[k]->name + length + 1);
            if (s == SLOTS)
                return qg_fail(QG_EARG, "%s: other programs have no %s", f->path, p->item[k]->name);
            to.slot[s] = p->item[k];
        }
        if (k > first) f->part[f->parts++] = to;
    }
    return QG_OK;
}

static size_t module_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : 0;
}

/* features.2 precedes features.10. */
static int by_module(const void *left, const void *right)
{
    const char *a = (*(const qg_named_array *const *)left)->name,
               *b = (*(const qg_named_array *const *)right)->name;
    const int   order = qg__names_compare(a, module_length(a), b, module_length(b));
    return order ? order : strcmp(a, b);
}

static bool is_float(const qg_named_array *e)
{
    return !strcmp(e->dtype, "F32") || !strcmp(e->dtype, "F16") || !strcmp(e->dtype, "BF16") ||
           !strcmp(e->dtype, "F64");
}

/* How many arrays from the first one are of its module; *is_quantizer: it is one of qgrad.torch,
 * which counts its forwards. */
static size_t count_arrays(const qg_named_array *const *list, size_t n, bool *is_quantizer)
{
    const size_t length = module_length(list[0]->name);
    size_t       i      = 0;
    *is_quantizer       = false;
    for (; i < n && module_length(list[i]->name) == length &&
           !strncmp(list[i]->name, list[0]->name, length);
         i++)
        *is_quantizer |= !strcmp(list[i]->name + length, ".forwards");
    return i;
}

static void add_array(foreign *f, const qg_named_array *e)
{
    const size_t n    = module_length(e->name);
    const char  *end  = e->name + n + (e->name[n] == '.');
    const int    s    = slot_of(end);
    module      *last = f->modules ? &f->module[f->modules - 1] : NULL;
    char         shape[QG__SHAPE_BYTES];
    if (!strcmp(end, "num_batches_tracked")) return;
    qg__array_shape(&e->array, shape);
    if (s == SLOTS) misfit(f, "%s %s is not an array of a layer", e->name, shape);
    else if (!is_float(e)) misfit(f, "%s %s is %s, not F32, F16, BF16 or F64", e->name, shape, e->dtype);
    if (s == SLOTS) return;
    if (!last || last->length != n || strncmp(last->name, e->name, n))
        last = &f->module[f->modules++], *last = (module){ .name = e->name, .length = n };
    if (last->slot[s]) misfit(f, "%s is the same as %s", e->name, last->slot[s]->name);
    last->slot[s] = e;
}

static qg_status list_modules(foreign *f)
{
    size_t                 n;
    bool                   skips;
    const qg_named_array  *e    = qg_archive_entries(f->archive, &n);
    const qg_named_array **list = calloc(n + 1, sizeof *list);
    f->module                   = calloc(n + 1, sizeof *f->module);
    for (size_t i = 0; list && i < n; i++) list[i] = &e[i];
    if (list) qsort(list, n, sizeof *list, by_module);
    for (size_t i = 0, m; list && f->module && i < n; i += m) {
        m = count_arrays(list + i, n - i, &skips);
        for (size_t k = 0; k < m && !skips; k++) add_array(f, list[i + k]);
    }
    free(list);
    return list && f->module ? QG_OK
                             : qg_fail(QG_EMEM, "%s: out of memory for %zu arrays", f->path, n);
}

/* --- shapes --------------------------------------------------------------------------------- */

/* The shape of an array of p in the file.  Of a weight there may be another one, whose numbers lie
 * in the same order: a dense layer may come as a convolution over its whole input, and Keras
 * numbers the outputs of a depthwise one by two axes. */
static qg_array wanted(const foreign *f, const part *p, int slot, bool other)
{
    const qg_shape s = p->slot[slot]->shape;
    const size_t n = (size_t)s.n, h = (size_t)s.h, w = (size_t)s.w, c = (size_t)s.c,
                 row = h * w * c;
    const bool     hwio = f->spec->layout == QG_HWIO;
    if (slot != WEIGHT || !p->product) return (qg_array){ .rank = 1, .dims = { c } };
    const size_t groups = (size_t)p->product->conv.groups;
    const bool whole = qg_row(p->layer->in) == row && p->layer->out.h == 1 && p->layer->out.w == 1;
    if (whole && !other) return (qg_array){ .rank = 2, .dims = { hwio ? row : n, hwio ? n : row } };
    if (!hwio) return (qg_array){ .rank = 4, .dims = { n, c, h, w } };
    return other && c == 1 ? (qg_array){ .rank = 4, .dims = { h, w, groups, n / groups } }
                           : (qg_array){ .rank = 4, .dims = { h, w, c, n } };
}

/* A bias before a batch norm, which has none here, goes into the running mean. */
static bool fits_slot(const foreign *f, const part *p, int slot, const qg_named_array *e)
{
    const qg_array channels = { .rank = 1, .dims = { (size_t)p->layer->out.c } };
    if (!e) return !p->slot[slot];
    if (!p->slot[slot])
        return slot == BIAS && p->product && p->product->batchnorm &&
               qg__array_same_shape(e->array, channels);
    return qg__array_same_shape(e->array, wanted(f, p, slot, false)) ||
           qg__array_same_shape(e->array, wanted(f, p, slot, true));
}

static bool fits(const foreign *f, const part *p, const module *m)
{
    for (int s = 0; s < SLOTS; s++)
        if (!fits_slot(f, p, s, m->slot[s])) return false;
    return true;
}

/* Both batch norms, or both products. */
static bool are_of_one_kind(const part *p, const module *m)
{
    return !p->slot[MEAN] == !m->slot[MEAN] && p->slot[WEIGHT] && m->slot[WEIGHT];
}

/* Whether they are of one kind and size, though another array may be missing. */
static bool resembles(const foreign *f, const part *p, const module *m)
{
    return are_of_one_kind(p, m) && fits_slot(f, p, WEIGHT, m->slot[WEIGHT]);
}

/* Whether a message can say how they differ. */
static bool compares(const foreign *f, const part *p, const module *m)
{
    return are_of_one_kind(p, m) && m->slot[WEIGHT]->array.rank == wanted(f, p, WEIGHT, false).rank;
}

/* --- pairs ---------------------------------------------------------------------------------- */

static module *module_named(const foreign *f, const char *name, size_t n)
{
    for (size_t i = 0; i < f->modules; i++)
        if (f->module[i].length == n && !strncmp(f->module[i].name, name, n)) return &f->module[i];
    return NULL;
}

static void pair(part *p, module *m)
{
    p->from  = m;
    m->taken = true;
}

/* "LAYER MODULE", spaces, and a comment. */
static qg_status take_line(foreign *f, const char *at, int line)
{
    static const char space[] = " \t\r", ends[] = " \t\r\n#";
    const char  *map = f->spec->map, *ours = at + strspn(at, space);
    const size_t n   = strcspn(ours, ends);
    const char  *theirs = ours + n + strspn(ours + n, space);
    const size_t m      = strcspn(theirs, ends);
    size_t       i      = 0;
    if (!n) return QG_OK;
    if (!m || !strchr("\n#", theirs[m + strspn(theirs + m, space)]))
        return qg_fail(QG_EARG, "%s:%d: is not a line LAYER MODULE, such as conv1 features.0", map,
                       line);
    while (i < f->parts && (strlen(f->part[i].name) != n || strncmp(f->part[i].name, ours, n))) i++;
    module *from = module_named(f, theirs, m);
    if (i == f->parts)
        return qg_fail(QG_EARG, "%s:%d: the net has no layer '%.*s' with parameters", map, line,
                       (int)n, ours);
    if (!from)
        return qg_fail(QG_EARG, "%s:%d: %s has no arrays of '%.*s'", map, line, f->path, (int)m,
                       theirs);
    if (f->part[i].from)
        return qg_fail(QG_EARG, "%s:%d: '%.*s' is named twice", map, line, (int)n, ours);
    if (from->taken)
        return qg_fail(QG_EARG, "%s:%d: '%.*s' is named twice", map, line, (int)m, theirs);
    pair(&f->part[i], from);
    return QG_OK;
}

static qg_status read_map(foreign *f)
{
    enum { MOST_BYTES = 1 << 24 };
    char  *text;
    size_t n;
    int    line = 1;
    if (!f->spec->map) return QG_OK;
    qg_status status = qg__text_read(QG_BY_PATH, f->spec->map, MOST_BYTES, &text, &n);
    if (status) return status;
    for (const char *at = text; *at && !status; at = qg__lines_next(at))
        status = take_line(f, at, line++);
    free(text);
    return status;
}

static void pair_by_name(foreign *f)
{
    for (int pairs = 0; pairs < 2; pairs++)     /* first see whether all can be */
        for (size_t i = 0; i < f->parts; i++) {
            part   *p = &f->part[i];
            module *m = p->from ? NULL : module_named(f, p->name, strlen(p->name));
            if (!p->from && (!m || m->taken)) return;
            if (!p->from && pairs) pair(p, m);
        }
}

static size_t parts_of(const char *name, size_t n)
{
    size_t count = 1;
    for (size_t i = 0; i < n; i++) count += name[i] == '.';
    return count;
}

/* Steps from one module to the other in the tree of their names. */
static size_t distance(const module *a, const module *b)
{
    size_t same = 0;            /* parts that both names begin with */
    for (size_t i = 0; i < a->length && i < b->length && a->name[i] == b->name[i]; i++)
        same += a->name[i] == '.';
    return parts_of(a->name, a->length) + parts_of(b->name, b->length) - 2 * same;
}

/* The module of the product that p follows or, where another layer is in between, of the next one: names
 * mostly put p beside it.  NULL: it has none. */
static const module *neighbour_of(const foreign *f, const part *p)
{
    const part *last = f->part + f->parts, *before = p;
    while (before > f->part && before->layer != p->layer->after) before--;
    if (before->layer == p->layer->after && before->product) return before->from;
    while (p < last && !p->product) p++;
    return p < last ? p->from : NULL;
}

/* The first module that agrees, or of several the one nearest to the product. */
static module *nearest(const foreign *f, const part *p,
                       bool (*agree)(const foreign *f, const part *p, const module *m))
{
    const module *to   = p->product ? NULL : neighbour_of(f, p);
    module       *best = NULL;
    for (size_t k = 0; k < f->modules; k++) {
        module *m = &f->module[k];
        if (m->taken || !agree(f, p, m)) continue;
        if (!best || (to && distance(m, to) < distance(best, to))) best = m;
    }
    return best;
}

static void pair_by_order(foreign *f, bool (*agree)(const foreign *f, const part *p, const module *m))
{
    for (int others = 0; others < 2; others++)      /* after the products */
        for (size_t i = 0; i < f->parts; i++) {
            part   *p = &f->part[i];
            module *m = p->from || (!p->product) != others ? NULL : nearest(f, p, agree);
            if (m) pair(p, m);
        }
}

/* Notes what does not fit in a part (NULL: no layer) and its module (NULL: none). */
static void compare(foreign *f, const part *p, const module *m)
{
    for (int s = 0; s < SLOTS; s++) {
        const qg_named_array *e    = m ? m->slot[s] : NULL;
        const qg_param       *mine = p ? p->slot[s] : NULL;
        char                  here[QG__SHAPE_BYTES] = "", there[QG__SHAPE_BYTES] = "";
        if (p ? fits_slot(f, p, s, e) : !e) continue;
        const qg_array want = mine ? wanted(f, p, s, false) : (qg_array){ .rank = 0 };
        qg__array_shape(&want, here);
        if (e) qg__array_shape(&e->array, there);
        if (!e && m) misfit(f, "%s %s is missing in %.*s", mine->name, here, (int)m->length, m->name);
        else if (!e) misfit(f, "%s %s is missing", mine->name, here);
        else if (!mine) misfit(f, "%s %s is not in the net", e->name, there);
        else misfit(f, "%s %s is %s in the net, %s", e->name, there, here, mine->name);
    }
}

static qg_status match(foreign *f)
{
    qg_status status = list_parts(f);
    if (!status) status = list_modules(f);
    if (!status) status = read_map(f);
    if (status) return status;
    pair_by_name(f);
    pair_by_order(f, fits);
    pair_by_order(f, resembles);
    pair_by_order(f, compares);
    for (size_t i = 0; i < f->parts; i++) compare(f, &f->part[i], f->part[i].from);
    for (size_t i = 0; i < f->modules; i++)
        if (!f->module[i].taken) compare(f, NULL, &f->module[i]);
    return *f->misfits ? qg_fail(QG_ESHAPE, "%s: does not fit the net: %s", f->path, f->misfits)
                       : QG_OK;
}

/* --- values --------------------------------------------------------------------------------- */

static float half(uint16_t bits)
{
    const int   exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float size     = exponent == 31 ? (fraction ? NAN : INFINITY)
                           : exponent     ? ldexpf((float)(fraction + 1024), exponent - 25)
                                          : ldexpf((float)fraction, -24);
    return bits >> 15 ? -size : size;
}

static float value_at(const qg_named_array *e, size_t i)
{
    float x;
    if (!strcmp(e->dtype, "F32")) return ((const float *)e->array.data)[i];
    if (!strcmp(e->dtype, "F64")) return (float)((const double *)e->array.data)[i];
    const uint16_t high = (uint16_t)qg__number_of((const uint8_t *)e->array.data + 2 * i, 2, false);
    const uint32_t bits = (uint32_t)high << 16;
    if (!strcmp(e->dtype, "F16")) return half(high);
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Where number i of a weight [n][h][w][c] is in the file. */
static size_t place_of(const foreign *f, qg_shape shape, size_t i)
{
    const size_t height = (size_t)shape.h, width = (size_t)shape.w, depth = (size_t)shape.c;
    const size_t c = i % depth, w = i / depth % width, h = i / depth / width % height,
                 n = i / depth / width / height;
    return f->spec->layout == QG_HWIO ? ((h * width + w) * depth + c) * (size_t)shape.n + n
                                      : ((n * depth + c) * height + h) * width + w;
}

static qg_status fill(const foreign *f, const part *p, int slot)
{
    const qg_named_array *e  = p->from->slot[slot];
    const qg_param       *to = p->slot[slot];
    for (size_t i = 0; i < qg_count(to->shape); i++) {
        to->value[i] = value_at(e, slot == WEIGHT && p->product ? place_of(f, to->shape, i) : i);
        if (!isfinite(to->value[i]))
            return qg_fail(QG_ENAN, "%s: %s contains a value that is not finite", f->path, e->name);
        if (slot == VARIANCE && to->value[i] < 0)
            return qg_fail(QG_EFORMAT, "%s: %s contains a negative variance", f->path, e->name);
    }
    return QG_OK;
}

/* (x + b) - mean = x - (mean - b). */
static qg_status subtract_bias(const foreign *f, const part *p)
{
    const qg_named_array *e    = p->from->slot[BIAS];
    float                *mean = e && !p->slot[BIAS] ? p->product->batchnorm->mean->value : NULL;
    for (int k = 0; mean && k < p->layer->out.c; k++) {
        mean[k] = (float)((double)mean[k] - (double)value_at(e, (size_t)k));
        if (!isfinite(mean[k]))
            return qg_fail(QG_ENAN, "%s: %s contains a value that is not finite", f->path, e->name);
    }
    return QG_OK;
}

static qg_status fill_all(const foreign *f)
{
    qg_status status = QG_OK;
    for (size_t i = 0; i < f->parts; i++)
        for (int s = 0; s < SLOTS && !status; s++)
            if (f->part[i].slot[s]) status = fill(f, &f->part[i], s);
    for (size_t i = 0; i < f->parts && !status; i++) status = subtract_bias(f, &f->part[i]);
    return status;
}

static qg_status print_pairs(const void *what, FILE *out)
{
    const foreign *f = what;
    char           name[1024], shown[1024];
    for (const part *p = f->part; p < f->part + f->parts; p++) {
        snprintf(name, sizeof name, "%.*s", (int)p->from->length, p->from->name);
        qg__utf8_printable(name, shown, sizeof shown);
        fprintf(out, "%s %s\n", p->name, shown);
    }
    return QG_OK;
}

qg_status qg__foreign_load(qg_net *net, const qg_run_import_spec *spec, char **pairs)
{
    size_t    n;
    foreign   f      = { .spec = spec, .path = spec->weights, .net = net };
    qg_status status = qg__safetensors_open(QG_BY_PATH, f.path, &f.archive);
    *pairs           = NULL;
    if (status) return status;
    status = match(&f);
    if (!status)
        status = qg__safetensors_load(f.archive); /* nothing is read of a file that does not fit */
    if (!status) status = fill_all(&f);
    if (!status) status = qg__text_print(print_pairs, &f, pairs, &n);
    qg_archive_free(f.archive);
    free(f.part), free(f.module);
    return status;
}
