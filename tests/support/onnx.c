#include "tests/support/onnx.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* --- messages ----------------------------------------------------------------------------------- */

typedef struct field {
    int                  number, wire;
    uint64_t             v;             /* of wire 0 */
    const unsigned char *at, *end;      /* of wire 2 */
} field;

static bool take_varint(const unsigned char **at, const unsigned char *end, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const unsigned char b = *(*at)++;
        *v |= (uint64_t)(b & 127) << shift;
        if (b < 128) return true;
    }
    return false;
}

/* false at the end of the message, or with .number 0 if it is damaged. */
static bool take_field(const unsigned char **at, const unsigned char *end, field *f)
{
    uint64_t key, n;
    *f = (field){ 0 };
    if (*at == end) return false;
    if (!take_varint(at, end, &key)) return true;
    f->wire = (int)(key & 7);
    if (f->wire == 0 ? !take_varint(at, end, &f->v) : f->wire != 2) return true;
    if (f->wire == 2) {
        if (!take_varint(at, end, &n) || n > (uint64_t)(end - *at)) return true;
        f->at = *at, f->end = *at += n;
    }
    f->number = (int)(key >> 3);
    return true;
}

static bool is(const field *f, int number, int wire) { return f->number == number && f->wire == wire; }

static bool take_text(const field *f, size_t room, char *to)
{
    const size_t n = (size_t)(f->end - f->at);
    if (n >= room || memchr(f->at, 0, n)) return false;
    memcpy(to, f->at, n);
    to[n] = '\0';
    return true;
}

/* --- tensors ------------------------------------------------------------------------------------ */

static const char *allocate(onnx_model *m, onnx_tensor *t)
{
    t->n = 1;
    for (int i = 0; i < t->dims; i++) {
        if (t->dim[i] < 0 || (t->dim[i] && t->n > ((size_t)1 << 27) / (size_t)t->dim[i]))
            return "a tensor is too large";
        t->n *= (size_t)t->dim[i];
    }
    t->data = qg__arena_take(&m->arena, (t->n ? t->n : 1) * sizeof *t->data);
    return t->data ? NULL : "out of memory";
}

static onnx_tensor *find(const onnx_model *m, const char *name)
{
    for (int i = m->tensors; i-- > 0;)
        if (!strcmp(m->tensor[i].name, name)) return &m->tensor[i];
    return NULL;
}

static double element(int type, const unsigned char *p)
{
    float   f;
    int64_t l;
    int32_t i;
    switch (type) {
    case ONNX_FLOAT: return memcpy(&f, p, 4), (double)f;
    case ONNX_INT64: return memcpy(&l, p, 8), (double)l;
    case ONNX_INT32: return memcpy(&i, p, 4), (double)i;
    case ONNX_INT8: return (double)(int8_t)*p;
    default: return (double)*p;
    }
}

static const char *read_constant(onnx_model *m, field g, onnx_tensor *t)
{
    field f, raw = { 0 };
    while (take_field(&g.at, g.end, &f)) {
        if (is(&f, 1, 0) && t->dims < ONNX_DIMS) t->dim[t->dims++] = (int64_t)f.v;
        else if (is(&f, 2, 0)) t->type = (int)f.v;
        else if (is(&f, 8, 2)) {
            if (!take_text(&f, sizeof t->name, t->name)) return "a name is no text";
        } else if (is(&f, 9, 2)) raw = f;
        else return "a constant has an unknown field";
    }
    const size_t bytes = t->type == ONNX_FLOAT || t->type == ONNX_INT32 ? 4 : t->type == ONNX_INT64 ? 8
                         : t->type == ONNX_UINT8 || t->type == ONNX_INT8 ? 1 : 0;
    if (!bytes || !*t->name) return "a constant has no name or type";
    const char *fault = allocate(m, t);
    if (fault) return fault;
    if ((size_t)(raw.end - raw.at) != t->n * bytes) return "a constant has not the bytes of its dimensions";
    for (size_t i = 0; i < t->n; i++) t->data[i] = element(t->type, raw.at + i * bytes);
    return NULL;
}

static const char *read_attribute(field g, onnx_attribute *a)
{
    field f;
    int   type = 0;
    while (take_field(&g.at, g.end, &f)) {
        if (is(&f, 1, 2) && take_text(&f, sizeof a->name, a->name)) continue;
        if (is(&f, 20, 0)) type = (int)f.v;
        else if (is(&f, 3, 0)) a->v[0] = (int64_t)f.v;
        else if (is(&f, 8, 0) && a->count < 8) a->v[a->count++] = (int64_t)f.v;
        else return "an attribute has an unknown field";
    }
    return type == (a->count ? 7 : 2) ? NULL : "an attribute has another type than it says";
}

static const char *read_node(field g, onnx_node *n)
{
    field       f;
    char        name[ONNX_NAME] = "";
    const char *fault           = NULL;
    while (!fault && take_field(&g.at, g.end, &f)) {
        if (is(&f, 1, 2) && n->inputs < ONNX_INPUTS && take_text(&f, ONNX_NAME, n->input[n->inputs]))
            n->inputs++;
        else if (is(&f, 2, 2) && !*n->output && take_text(&f, ONNX_NAME, n->output)) continue;
        else if (is(&f, 3, 2) && take_text(&f, ONNX_NAME, name)) continue;
        else if (is(&f, 4, 2) && take_text(&f, sizeof n->type, n->type)) continue;
        else if (is(&f, 5, 2) && n->attributes < 8) fault = read_attribute(f, &n->attribute[n->attributes++]);
        else return "a node has an unknown field";
    }
    return fault                                                ? fault
           : *n->output && *n->type && !strcmp(name, n->output) ? NULL
                                                                : "a node has no output or type";
}

static const char *read_shape(field g, onnx_tensor *t)
{
    field dim, f;
    while (take_field(&g.at, g.end, &dim)) {
        if (!is(&dim, 1, 2) || t->dims == ONNX_DIMS || !take_field(&dim.at, dim.end, &f))
            return "a shape is damaged";
        if (t->dims ? !is(&f, 1, 0) : !is(&f, 2, 2)) return "a dimension is damaged";
        t->dim[t->dims] = t->dims ? (int64_t)f.v : 0;
        t->dims++;
    }
    return NULL;
}

static const char *read_info(field g, onnx_tensor *t)
{
    field       f;
    const char *fault = NULL;
    while (!fault && take_field(&g.at, g.end, &f)) {
        field of, numbers;
        if (is(&f, 1, 2)) {
            if (!take_text(&f, sizeof t->name, t->name)) return "a name is no text";
            continue;
        }
        if (!is(&f, 2, 2) || !take_field(&f.at, f.end, &of) || !is(&of, 1, 2))
            return "the type of an end is damaged";
        while (!fault && take_field(&of.at, of.end, &numbers)) {
            if (is(&numbers, 1, 0)) t->type = (int)numbers.v;
            else fault = is(&numbers, 2, 2) ? read_shape(numbers, t) : "the type of an end is damaged";
        }
    }
    return fault;
}

/* Nodes after what they read, and no name twice. */
static const char *check_order(const onnx_model *m)
{
    int constants = m->tensors;
    for (int i = 0; i < constants; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(m->tensor[i].name, m->tensor[j].name)) return "two constants have the same name";
    for (int i = 0; i < m->nodes; i++) {
        const onnx_node *n = &m->node[i];
        for (int k = 0; k < n->inputs; k++) {
            bool known = !strcmp(n->input[k], m->in.name) || find(m, n->input[k]);
            for (int j = 0; j < i && !known; j++) known = !strcmp(m->node[j].output, n->input[k]);
            if (!known) return "a node reads what is computed later";
        }
        if (find(m, n->output) || !strcmp(n->output, m->in.name)) return "a node has the name of a constant";
        for (int j = 0; j < i; j++)
            if (!strcmp(m->node[j].output, n->output)) return "two nodes have the same output";
    }
    return m->nodes && !strcmp(m->node[m->nodes - 1].output, m->out.name)
               ? NULL
               : "the last node does not compute the result";
}

static const char *read_graph(onnx_model *m, field g)
{
    field                f;
    int                  nodes = 0, constants = 0;
    const char          *fault = NULL;
    const unsigned char *at    = g.at;
    while (take_field(&at, g.end, &f)) nodes += f.number == 1, constants += f.number == 5;
    m->node   = qg__arena_take(&m->arena, ((size_t)nodes + 1) * sizeof *m->node);
    m->tensor = qg__arena_take(&m->arena, ((size_t)(nodes + constants) + 2) * sizeof *m->tensor);
    if (!m->node || !m->tensor) return "out of memory";
    memset(m->node, 0, (size_t)nodes * sizeof *m->node);
    memset(m->tensor, 0, ((size_t)(nodes + constants) + 2) * sizeof *m->tensor);
    while (!fault && take_field(&g.at, g.end, &f)) {
        if (is(&f, 1, 2)) fault = read_node(f, &m->node[m->nodes++]);
        else if (is(&f, 5, 2)) fault = read_constant(m, f, &m->tensor[m->tensors++]);
        else if (is(&f, 11, 2)) fault = read_info(f, &m->in);
        else if (is(&f, 12, 2)) fault = read_info(f, &m->out);
        else if (!is(&f, 2, 2)) return "the graph has an unknown field";
    }
    return fault ? fault : check_order(m);
}

const char *onnx_read(onnx_model *m, const unsigned char *file, size_t n)
{
    const unsigned char *at = file, *end = file + n;
    const char          *fault = NULL;
    field                f, sub;
    *m = (onnx_model){ 0 };
    while (!fault && take_field(&at, end, &f)) {
        if (is(&f, 1, 0)) m->ir = (int)f.v;
        else if (is(&f, 7, 2)) fault = read_graph(m, f);
        else if (is(&f, 8, 2) && take_field(&f.at, f.end, &sub) && is(&sub, 2, 0)) m->opset = (int)sub.v;
        else if (is(&f, 14, 2) && m->notes < 8) {
            if (!take_field(&f.at, f.end, &sub) || !is(&sub, 1, 2) ||
                !take_text(&sub, 64, m->key[m->notes]))
                return "a note is damaged";
            if (!take_field(&f.at, f.end, &sub) || !is(&sub, 2, 2) ||
                !take_text(&sub, 256, m->value[m->notes++]))
                return "a note is damaged";
        } else if (!is(&f, 2, 2)) return "the model has an unknown field";
    }
    return fault                                      ? fault
           : m->ir == 7 && m->opset == 13 && m->nodes ? NULL
                                                      : "the model has other versions, or no graph";
}

void onnx_free(onnx_model *m) { qg__arena_release(&m->arena); }

int onnx_count(const onnx_model *m, const char *type)
{
    int n = 0;
    for (int i = 0; i < m->nodes; i++) n += !strcmp(m->node[i].type, type);
    return n;
}

/* --- operators ---------------------------------------------------------------------------------- */

typedef struct call {
    onnx_model        *m;
    const onnx_node   *n;
    const onnx_tensor *x[ONNX_INPUTS];
    onnx_tensor       *y;
} call;

static const int64_t *attribute_of(const call *c, const char *name)
{
    for (int i = 0; i < c->n->attributes; i++)
        if (!strcmp(c->n->attribute[i].name, name)) return c->n->attribute[i].v;
    return NULL;
}

static int64_t integer_of(const call *c, const char *name, int64_t otherwise)
{
    const int64_t *v = attribute_of(c, name);
    return v ? *v : otherwise;
}

static double rounded(int type, double v) { return type == ONNX_FLOAT ? (double)(float)v : v; }

/* y has the dimensions of x. */
static const char *like(const call *c, const onnx_tensor *x, int type)
{
    c->y->type = type, c->y->dims = x->dims;
    memcpy(c->y->dim, x->dim, sizeof x->dim);
    return allocate(c->m, c->y);
}

/* The place of element i of y in x, whose dimensions are repeated. */
static size_t place_in(const onnx_tensor *x, const onnx_tensor *y, size_t i)
{
    size_t place = 0, stride = 1;
    if (x->n == y->n) return i;
    if (x->n == 1) return 0;
    for (int d = y->dims - 1, e = x->dims - 1; d >= 0; d--, e--) {
        const size_t at = i % (size_t)y->dim[d];
        i /= (size_t)y->dim[d];
        if (e < 0) continue;
        if (x->dim[e] != 1) place += at * stride;
        stride *= (size_t)x->dim[e];
    }
    return place;
}

/* type begins differently in each operator. */
static double pair_of(const char *type, double a, double b)
{
    switch (*type) {
    case 'A': return a + b;
    case 'S': return a - b;
    case 'M': return a * b;
    case 'D': return a / b;
    case 'P': return a < 0 ? a * b : a;
    default: return a >= b;
    }
}

/* Of up to three operands, each repeated where it has one element along a dimension. */
static const char *elementwise(const call *c)
{
    const int n = c->n->inputs;
    c->y->dims = 0;
    for (int k = 0; k < n; k++)
        if (c->x[k]->dims > c->y->dims) c->y->dims = c->x[k]->dims;
    for (int d = 0; d < c->y->dims; d++) {
        c->y->dim[d] = 1;
        for (int k = 0; k < n; k++) {
            const int     e   = d - (c->y->dims - c->x[k]->dims);
            const int64_t own = e < 0 ? 1 : c->x[k]->dim[e];
            if (own != 1 && c->y->dim[d] != 1 && own != c->y->dim[d])
                return "operands have different dimensions";
            if (own != 1) c->y->dim[d] = own;
        }
    }
    const bool where = !strcmp(c->n->type, "Where"), clip = !strcmp(c->n->type, "Clip"),
               compares = !strcmp(c->n->type, "GreaterOrEqual");
    c->y->type = compares ? ONNX_BOOL : c->x[n - 1]->type;
    if (!where && n > 1 && c->x[0]->type != c->x[1]->type) return "operands have different types";
    const char *fault = allocate(c->m, c->y);
    for (size_t i = 0; i < c->y->n && !fault; i++) {
        double v[3];
        for (int k = 0; k < n; k++) v[k] = c->x[k]->data[place_in(c->x[k], c->y, i)];
        c->y->data[i] = rounded(c->y->type, where  ? (v[0] != 0 ? v[1] : v[2])
                                            : clip ? fmin(fmax(v[0], v[1]), v[2])
                                                   : pair_of(c->n->type, v[0], v[1]));
    }
    return fault;
}

static double function_of(const char *type, double v)
{
    if (!strcmp(type, "Relu")) return v < 0 ? 0 : v;
    if (!strcmp(type, "Neg")) return -v;
    if (!strcmp(type, "Abs")) return fabs(v);
    if (!strcmp(type, "Round")) return rint(v);
    if (!strcmp(type, "Floor")) return floor(v);
    if (!strcmp(type, "Sigmoid")) return 1 / (1 + exp(-v));
    if (!strcmp(type, "Tanh")) return tanh(v);
    return v;
}

static const char *function(const call *c)
{
    const bool  casts = !strcmp(c->n->type, "Cast");
    const char *fault = like(c, c->x[0], casts ? (int)integer_of(c, "to", 0) : c->x[0]->type);
    for (size_t i = 0; i < c->y->n && !fault; i++) {
        const double v = function_of(c->n->type, c->x[0]->data[i]);
        c->y->data[i] = casts && c->y->type != ONNX_FLOAT && c->y->type != ONNX_DOUBLE
                            ? trunc(v)
                            : rounded(c->y->type, v);
    }
    return fault;
}

static const char *dequantize(const call *c)
{
    const int64_t axis  = integer_of(c, "axis", 1);
    const char   *fault = like(c, c->x[0], ONNX_FLOAT);
    const bool    each  = c->x[1]->dims > 0;
    if (each && (axis || c->x[1]->n != (size_t)c->y->dim[0])) return "dequantizes along another axis";
    for (size_t i = 0; i < c->y->n && !fault; i++) {
        const size_t row = each ? i / (c->y->n / (size_t)c->y->dim[0]) : 0;
        c->y->data[i] =
            rounded(ONNX_FLOAT,
                    (c->x[0]->data[i] - (c->n->inputs > 2 ? c->x[2]->data[row] : 0)) * c->x[1]->data[row]);
    }
    return fault;
}

/* Where the windows of a node lie. */
typedef struct windows {
    int64_t kh, kw, stride, top, left, oh, ow;
} windows;

static windows windows_of(const call *c)
{
    static const int64_t none[4];
    const int64_t *k = attribute_of(c, "kernel_shape"), *s = attribute_of(c, "strides"),
                  *p = attribute_of(c, "pads"), *d = c->x[0]->dim;
    if (!p) p = none;
    const int64_t oh = (d[2] + p[0] + p[2] - k[0]) / s[0] + 1, ow = (d[3] + p[1] + p[3] - k[1]) / s[0] + 1;
    return (windows){ k[0], k[1], s[0], p[0], p[1], oh, ow };
}

/* One output of a convolution: integers are exact in any order. */
static float convolved(const onnx_tensor *x, const onnx_tensor *w, windows g, size_t image, int64_t first,
                       int64_t o, int64_t i, int64_t j)
{
    float sum = 0;
    for (int64_t a = 0; a < g.kh; a++)
        for (int64_t b = 0; b < g.kw; b++) {
            const int64_t row = i * g.stride - g.top + a, column = j * g.stride - g.left + b;
            if (row < 0 || row >= x->dim[2] || column < 0 || column >= x->dim[3]) continue;
            const int64_t area = x->dim[2] * x->dim[3], taps = g.kh * g.kw, n = (int64_t)image * x->dim[1] + first;
            const double *at = x->data + n * area + row * x->dim[3] + column;
            const double *own = w->data + o * w->dim[1] * taps + a * g.kw + b;
            for (int64_t k = 0; k < w->dim[1]; k++)
                sum = fmaf((float)own[k * taps], (float)at[k * area], sum);
        }
    return sum;
}

static const char *conv(const call *c)
{
    const onnx_tensor *x = c->x[0], *w = c->x[1];
    const windows      g = windows_of(c);
    const int64_t      groups = integer_of(c, "group", 1), own = w->dim[0] / groups;
    if (x->dims != 4 || w->dims != 4 || w->dim[1] * groups != x->dim[1] || g.oh < 1 || g.ow < 1 ||
        w->dim[2] != g.kh || w->dim[3] != g.kw)
        return "a convolution does not fit its operands";
    *c->y = (onnx_tensor){ .type = ONNX_FLOAT, .dims = 4, .dim = { x->dim[0], w->dim[0], g.oh, g.ow } };
    const char *fault = allocate(c->m, c->y);
    double     *to    = c->y->data;
    for (size_t n = 0; n < (size_t)x->dim[0] && !fault; n++)
        for (int64_t o = 0; o < w->dim[0]; o++)
            for (int64_t i = 0; i < g.oh; i++)
                for (int64_t j = 0; j < g.ow; j++)
                    *to++ = (double)convolved(x, w, g, n, o / own * w->dim[1], o, i, j);
    return fault;
}

static const char *pool(const call *c)
{
    const onnx_tensor *x = c->x[0];
    const windows      g = windows_of(c);
    const bool         max = !strcmp(c->n->type, "MaxPool"), all = integer_of(c, "count_include_pad", 0);
    if (x->dims != 4 || g.oh < 1 || g.ow < 1) return "a pooling does not fit its operand";
    *c->y = (onnx_tensor){ .type = ONNX_FLOAT, .dims = 4, .dim = { x->dim[0], x->dim[1], g.oh, g.ow } };
    const char *fault = allocate(c->m, c->y);
    double     *to    = c->y->data;
    for (int64_t p = 0; p < x->dim[0] * x->dim[1] && !fault; p++)
        for (int64_t i = 0; i < g.oh; i++)
            for (int64_t j = 0; j < g.ow; j++, to++) {
                int64_t n   = 0;
                double  sum = 0, most = -HUGE_VAL;
                for (int64_t a = 0; a < g.kh * g.kw; a++) {
                    const int64_t row = i * g.stride - g.top + a / g.kw,
                                  column = j * g.stride - g.left + a % g.kw;
                    if (row < 0 || row >= x->dim[2] || column < 0 || column >= x->dim[3]) continue;
                    const double v = x->data[(p * x->dim[2] + row) * x->dim[3] + column];
                    n++, sum += v, most = fmax(most, v);
                }
                *to = max ? most : rounded(ONNX_FLOAT, sum / (double)(all ? g.kh * g.kw : n));
            }
    return fault;
}

static const char *gemm(const call *c)
{
    const onnx_tensor *x = c->x[0], *w = c->x[1];
    if (x->dims != 2 || w->dims != 2 || x->dim[1] != w->dim[1] || integer_of(c, "transB", 0) != 1)
        return "a product does not fit its operands";
    *c->y = (onnx_tensor){ .type = ONNX_FLOAT, .dims = 2, .dim = { x->dim[0], w->dim[0] } };
    const char *fault = allocate(c->m, c->y);
    for (size_t i = 0; i < c->y->n && !fault; i++) {
        const double *a = x->data + i / (size_t)w->dim[0] * (size_t)x->dim[1],
                     *b = w->data + i % (size_t)w->dim[0] * (size_t)x->dim[1];
        double sum = 0;
        for (int64_t k = 0; k < x->dim[1]; k++) sum += a[k] * b[k];
        c->y->data[i] = rounded(ONNX_FLOAT, sum);
    }
    return fault;
}

/* Along one axis, which remains with one element or disappears. */
static const char *reduce(const call *c)
{
    const onnx_tensor *x    = c->x[0];
    const bool         mean = !strcmp(c->n->type, "ReduceMean");
    int64_t            axis = mean ? integer_of(c, "axes", 0) : (int64_t)c->x[1]->data[0], inner = 1;
    if (axis < 0) axis += x->dims;
    if (axis < 0 || axis >= x->dims) return "reduces an axis that is not there";
    const int64_t size = x->dim[axis];
    const bool    keep = integer_of(c, "keepdims", 1);
    for (int d = (int)axis + 1; d < x->dims; d++) inner *= x->dim[d];
    c->y->type = x->type, c->y->dims = 0;
    for (int d = 0; d < x->dims; d++)
        if (d != axis || keep) c->y->dim[c->y->dims++] = d == axis ? 1 : x->dim[d];
    const char *fault = allocate(c->m, c->y);
    for (int64_t i = 0; i < (int64_t)c->y->n && !fault; i++) {
        double sum = 0;
        for (int64_t k = 0; k < size; k++) sum += x->data[(i / inner * size + k) * inner + i % inner];
        c->y->data[i] = rounded(x->type, mean ? sum / (double)size : sum);
    }
    return fault;
}

static const char *gather(const call *c)
{
    const onnx_tensor *x = c->x[0], *at = c->x[1];
    const int64_t      axis = integer_of(c, "axis", 0);
    int64_t            inner = 1;
    if (axis >= x->dims || x->dims - 1 + at->dims > ONNX_DIMS)
        return "gathers along an axis that is not there";
    for (int d = (int)axis + 1; d < x->dims; d++) inner *= x->dim[d];
    c->y->type = x->type, c->y->dims = 0;
    for (int d = 0; d < axis; d++) c->y->dim[c->y->dims++] = x->dim[d];
    for (int d = 0; d < at->dims; d++) c->y->dim[c->y->dims++] = at->dim[d];
    for (int d = (int)axis + 1; d < x->dims; d++) c->y->dim[c->y->dims++] = x->dim[d];
    const char *fault = allocate(c->m, c->y);
    for (int64_t i = 0; i < (int64_t)c->y->n && !fault; i++) {
        const double k = at->data[i / inner % (int64_t)at->n];
        if (!(k >= 0 && k < (double)x->dim[axis])) return "gathers what is not there";
        c->y->data[i] = x->data[(i / inner / (int64_t)at->n * x->dim[axis] + (int64_t)k) * inner + i % inner];
    }
    return fault;
}

/* An element of x for each of y: element at[d] of y along d is element (at[d] - before[d]) step[d] of x;
 * outside is value. */
static const char *rearrange(const call *c, const int64_t *before, const int64_t *step, const int *from,
                             double value)
{
    const onnx_tensor *x     = c->x[0];
    const char        *fault = allocate(c->m, c->y);
    for (size_t i = 0; i < c->y->n && !fault; i++) {
        size_t  rest = i;
        int64_t at[ONNX_DIMS], place = 0;
        bool    inside = true;
        for (int d = c->y->dims - 1; d >= 0; d--) {
            at[from[d]] = ((int64_t)(rest % (size_t)c->y->dim[d]) - before[d]) * step[d];
            rest /= (size_t)c->y->dim[d];
        }
        for (int d = 0; d < x->dims; d++) {
            inside = inside && at[d] >= 0 && at[d] < x->dim[d];
            place  = place * x->dim[d] + at[d];
        }
        c->y->data[i] = inside ? x->data[place] : value;
    }
    return fault;
}

static const char *move(const call *c)
{
    const onnx_tensor *x = c->x[0];
    int64_t            before[ONNX_DIMS] = { 0 }, step[ONNX_DIMS] = { 1, 1, 1, 1, 1, 1 };
    int                from[ONNX_DIMS] = { 0, 1, 2, 3, 4, 5 };
    const int64_t     *perm = attribute_of(c, "perm");
    c->y->type = x->type, c->y->dims = x->dims;
    memcpy(c->y->dim, x->dim, sizeof x->dim);
    if (!strcmp(c->n->type, "Pad")) {
        if (c->x[1]->n != 2 * (size_t)x->dims) return "pads other dimensions";
        for (int d = 0; d < x->dims; d++) {
            before[d] = (int64_t)c->x[1]->data[d];
            c->y->dim[d] += before[d] + (int64_t)c->x[1]->data[d + x->dims];
        }
    } else if (!strcmp(c->n->type, "Slice")) {
        for (size_t k = 0; k < c->x[3]->n; k++) {
            const int d = (int)c->x[3]->data[k];
            step[d]      = (int64_t)c->x[4]->data[k];
            c->y->dim[d] = ((int64_t)c->x[2]->data[k] - (int64_t)c->x[1]->data[k] + step[d] - 1) / step[d];
        }
    } else {
        if (!perm || x->dims != 4) return "transposes other dimensions";
        for (int d = 0; d < 4; d++) from[d] = (int)perm[d], c->y->dim[d] = x->dim[perm[d]];
    }
    return rearrange(c, before, step, from,
                     c->n->inputs > 2 && !strcmp(c->n->type, "Pad") ? c->x[2]->data[0] : 0);
}

static const char *reshape(const call *c)
{
    const onnx_tensor *x = c->x[0];
    const char        *fault;
    *c->y = (onnx_tensor){ .type = x->type };
    if (!strcmp(c->n->type, "Flatten")) {
        c->y->dims   = 2;
        c->y->dim[0] = x->dim[0], c->y->dim[1] = x->dim[0] ? (int64_t)(x->n / (size_t)x->dim[0]) : 0;
    } else if (!strcmp(c->n->type, "Unsqueeze")) {
        c->y->dims = x->dims + 1;
        memcpy(c->y->dim, x->dim, sizeof x->dim);
        c->y->dim[x->dims] = 1;
        if (c->x[1]->n != 1 || c->x[1]->data[0] != -1) return "unsqueezes another dimension";
    } else {
        int64_t known = 1;
        c->y->dims = (int)c->x[1]->n;
        for (int d = 1; d < c->y->dims; d++) known *= c->y->dim[d] = (int64_t)c->x[1]->data[d];
        c->y->dim[0] = (int64_t)x->n / known;
    }
    fault = allocate(c->m, c->y);
    if (fault || c->y->n != x->n) return fault ? fault : "a new shape has other elements";
    memcpy(c->y->data, x->data, x->n * sizeof *x->data);
    return NULL;
}

static const char *concat(const call *c)
{
    const onnx_tensor *x = c->x[0], *z = c->x[1];
    if (integer_of(c, "axis", -1) != 1 || x->dims != z->dims || x->dim[0] != z->dim[0])
        return "joins other dimensions";
    const char  *fault = like(c, x, x->type);
    const size_t own = x->n / (size_t)x->dim[0], rest = z->n / (size_t)z->dim[0];
    c->y->dim[1] += z->dim[1];
    if (!fault) fault = allocate(c->m, c->y);
    for (size_t i = 0; i < (size_t)x->dim[0] && !fault; i++) {
        memcpy(c->y->data + i * (own + rest), x->data + i * own, own * sizeof(double));
        memcpy(c->y->data + i * (own + rest) + own, z->data + i * rest, rest * sizeof(double));
    }
    return fault;
}

static const struct {
    const char *type;
    const char *(*run)(const call *c);
    int          inputs;        /* at least */
} operators[] = {
    { "Add", elementwise, 2 },  { "Sub", elementwise, 2 },  { "Mul", elementwise, 2 },  { "Div", elementwise, 2 }, { "PRelu", elementwise, 2 },
    { "GreaterOrEqual", elementwise, 2 }, { "Where", elementwise, 3 }, { "Clip", elementwise, 3 }, { "Cast", function, 1 },
    { "Relu", function, 1 },    { "Neg", function, 1 },     { "Abs", function, 1 },     { "Round", function, 1 },  { "Floor", function, 1 },
    { "Sigmoid", function, 1 }, { "Tanh", function, 1 },    { "Identity", function, 1 }, { "DequantizeLinear", dequantize, 2 },
    { "Conv", conv, 2 },        { "Gemm", gemm, 2 },        { "MaxPool", pool, 1 },     { "AveragePool", pool, 1 },
    { "ReduceSum", reduce, 2 }, { "ReduceMean", reduce, 1 }, { "Gather", gather, 2 },   { "Pad", move, 2 },        { "Slice", move, 5 },
    { "Transpose", move, 1 },   { "Reshape", reshape, 2 },  { "Flatten", reshape, 1 },  { "Unsqueeze", reshape, 2 }, { "Concat", concat, 2 },
};

static const char *run_node(onnx_model *m, const onnx_node *n)
{
    call c = { .m = m, .n = n, .y = &m->tensor[m->tensors] };
    for (int i = 0; i < n->inputs; i++) c.x[i] = find(m, n->input[i]);
    for (size_t k = 0; k < sizeof operators / sizeof *operators; k++) {
        if (strcmp(operators[k].type, n->type)) continue;
        if (n->inputs < operators[k].inputs) return "a node has too few inputs";
        const char *fault = operators[k].run(&c);
        for (size_t i = 0; !fault && i < c.y->n; i++) m->finite = m->finite && isfinite(c.y->data[i]);
        strcpy(c.y->name, n->output);
        m->tensors++;
        return fault;
    }
    return "an operator is unknown";
}

const char *onnx_run(onnx_model *m, int images, const float *x, float *scores)
{
    const int    constants = m->tensors;
    const char  *fault;
    onnx_tensor *in = &m->tensor[m->tensors++];
    *in             = m->in;
    in->dim[0]      = images;
    fault           = allocate(m, in);
    m->finite       = true;
    for (size_t i = 0; i < in->n && !fault; i++) in->data[i] = (double)x[i];
    for (int i = 0; i < m->nodes && !fault; i++) fault = run_node(m, &m->node[i]);
    const onnx_tensor *y = &m->tensor[m->tensors - 1];
    if (!fault &&
        (y->dims != 2 || y->dim[0] != images || y->dim[1] != m->out.dim[1] || y->type != m->out.type))
        fault = "the result has another shape than the file says";
    for (size_t i = 0; !fault && i < y->n; i++) scores[i] = (float)y->data[i];
    memset(m->tensor + constants, 0, (size_t)(m->tensors - constants) * sizeof *m->tensor);
    m->tensors = constants;
    return fault;
}

static bool is_inexact(const qg__records *s, const qg__packed_step *r)
{
    const bool floats = r->x == 0 || s->record[r->x - 1].r.coding == QG__AS_FLOATS;
    if (r->kind == QG__PRODUCT) return floats && (r->two_sided || (r->oh == 1 && r->ow == 1));
    return r->kind == QG__AVGPOOL || r->kind == QG__MEAN_ABS;
}

bool onnx_is_exact(const qg__records *s)
{
    for (int i = 0; i < s->count; i++)
        if (is_inexact(s, &s->record[i].r)) return false;
    return true;
}
