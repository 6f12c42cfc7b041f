#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/io/number.h"
#include "core/io/paths.h"
#include "layers/export/c_program.h"
#include "layers/plan.h"

enum { NAME = 320, MOST_ARRAYS = 10 };

/* A program while it is printed. */
typedef struct printer {
    const qg__c_program *p;
    FILE                *out;
    bool                 part[QG__C_PARTS];
    size_t               constants;             /* bytes of arrays so far */
    const char          *array[MOST_ARRAYS];    /* the names of those of the stage at hand, */
    int                  arrays;                /* which its layer points to */
} printer;

/* Of each kind of record: its call, its part, whether it has a layer, and the names of its arrays of [c].
 *
 *     $x $y $z its values; $n numbers, $c channels and $p pixels of x, $o channels of y; $l its name; $f the function of
 *     a product; $s the end of its name; $e whether it leaves out padding; $i $j its ends */
static const struct {
    const char *call;
    qg__c_part  part;
    bool        has_layer;
    const char *array[3];
} kinds[QG__KINDS] = {
    [QG__PRODUCT]  = { "$f(&$l_layer, $x, $y);", QG__C_TAPS, true },
    [QG__AFFINE]   = { "affine($n, $c, $l_a, $l_b, $x, $y);", QG__C_AFFINE, false, { "a", "b" } },
    [QG__QUANTIZE] = { "quantize$s(&$l_layer, $n, $x, $y);", QG__C_QUANTIZE, true },
    [QG__MAXPOOL]  = { "max_pool$s(&$l_layer, $x, $y);", QG__C_MAX_POOL, true },
    [QG__AVGPOOL]  = { "average_pool(&$l_layer, $e, $x, $y);", QG__C_AVERAGE_POOL, true },
    [QG__RELU]     = { "relu($n, $x, $y);", QG__C_RELU },
    [QG__CLIP]     = { "clip($n, $i, $j, $x, $y);", QG__C_CLIP },
    [QG__SIGMOID]  = { "sigmoid($n, $x, $y);", QG__C_SIGMOID },
    [QG__TANH]     = { "tanh_of_all($n, $x, $y);", QG__C_TANH },
    [QG__PRELU]    = { "prelu($n, $c, 0, $l_a, 0, $x, $y);", QG__C_PRELU, false, { "a" } },
    [QG__RPRELU]   = { "prelu($n, $c, $l_before, $l_a, $l_after, $x, $y);", QG__C_PRELU, false,
                       { "before", "a", "after" } },
    [QG__ADD]      = { "add($n, $x, $z, $y);", QG__C_ADD },
    [QG__CONCAT]   = { "concat($p, $c, $o, $x, $z, $y);", QG__C_CONCAT },
    [QG__SHORTCUT] = { "shortcut(&$l_layer, $x, $y);", QG__C_SHORTCUT, true },
    [QG__MEAN_ABS] = { "mean_abs(&$l_layer, $x, $y);", QG__C_MEAN_ABS, true },
    [QG__MULTIPLY] = { "multiply($n, $c, $x, $z, $y);", QG__C_MULTIPLY },
};

/* --- arrays --------------------------------------------------------------------------------- */

typedef enum number { U8, I8, U16, I32, I64, F32 } number;

static const struct {
    const char *name;
    size_t      bytes;
} numbers[] = { [U8]  = { "uint8_t", 1 }, [I8] = { "int8_t", 1 },  [U16] = { "uint16_t", 2 },
                [I32] = { "int32_t", 4 }, [I64] = { "int64_t", 8 }, [F32] = { "float", 4 } };

/* 1 is 1.0f.  The ends of clip may be infinite, which finite numbers cannot tell from the largest one. */
static const char *float_text(char text[QG_NUMBER_BYTES], float x)
{
    qg__number_print_float(text, isinf(x) ? copysignf(FLT_MAX, x) : x);
    return strcat(text, strpbrk(text, ".e") ? "f" : ".0f");
}

static const char *number_text(char text[QG_NUMBER_BYTES], number is, const void *x, size_t i)
{
    if (is == F32) return float_text(text, ((const float *)x)[i]);
    const int64_t v = is == U8    ? ((const uint8_t *)x)[i]
                      : is == I8  ? ((const int8_t *)x)[i]
                      : is == U16 ? ((const uint16_t *)x)[i]
                      : is == I32 ? ((const int32_t *)x)[i]
                                  : ((const int64_t *)x)[i];
    snprintf(text, QG_NUMBER_BYTES, is == I64 ? "%lldLL" : "%lld", (long long)v);
    return text;
}

/* static const TYPE NAME_WHAT[n], if there are any. */
static void put_array(printer *to, const char *name, number is, const char *what, size_t n, const void *x)
{
    enum { COLUMNS = 100 };
    int column = COLUMNS;
    if (!n) return;
    fprintf(to->out, "static const %s %s_%s[%zu] = {", numbers[is].name, name, what, n);
    for (size_t i = 0; i < n; i++) {
        char      text[QG_NUMBER_BYTES];
        const int length = (int)strlen(number_text(text, is, x, i)) + 2;
        if (column + length > COLUMNS) column = fprintf(to->out, "\n   ") - 1;
        column += length;
        fprintf(to->out, " %s,", text);
    }
    fprintf(to->out, "\n};\n");
    to->constants += n * numbers[is].bytes;
    to->array[to->arrays++] = what;
}

static void put_product_arrays(printer *to, const qg__c_stage *t)
{
    const qg__packed_step *r  = &t->s->r;
    const size_t           oc = (size_t)r->oc, odds = (size_t)t->odds;
    const float           *a  = t->s->floats;
    if (r->w_count) put_array(to, t->name, U8, "weights", oc * qg__row_bytes(r), t->weights);
    else put_array(to, t->name, F32, "numbers", oc * qg__row_numbers(r), t->s->w);
    if (t->result == QG__C_BY_LEAST) {
        put_array(to, t->name, I32, "least", oc * (size_t)t->thresholds, t->least);
        if (t->any_falls) put_array(to, t->name, I8, "falls", oc, t->falls);
    } else if (t->result == QG__C_BY_LINE) {
        put_array(to, t->name, I64, "slope", oc, t->slope);
        put_array(to, t->name, I64, "start", oc, t->start);
        put_array(to, t->name, U8, "shift", oc, t->shift);
        put_array(to, t->name, U16, "odd", oc + 1, t->odd);
        put_array(to, t->name, I32, "odd_sum", odds, t->odd_sum);
        put_array(to, t->name, U8, "odd_code", odds, t->odd_code);
    } else {
        put_array(to, t->name, F32, "a", oc, a);
        if (r->two_sided) put_array(to, t->name, F32, "an", oc, a + oc);
        put_array(to, t->name, F32, "b", oc, a + (r->two_sided ? 2 * oc : oc));
    }
}

static void put_arrays(printer *to, const qg__c_stage *t)
{
    const qg__packed_step *r = &t->s->r;
    const size_t           c = (size_t)r->c;
    const float           *x = t->s->floats;
    to->arrays = 0;
    if (t->table) {
        if (!t->is_identity) put_array(to, t->name, U8, "table", c * QG__C_BYTES, t->table);
        return;
    }
    if (qg__c_is_product(t)) put_product_arrays(to, t);
    for (size_t i = 0; i < 3; i++)
        if (kinds[r->kind].array[i]) put_array(to, t->name, F32, kinds[r->kind].array[i], c, x + i * c);
    if (!t->threshold || t->result == QG__C_BY_LEAST || t->result == QG__C_BY_LINE) return;
    put_array(to, t->name, F32, "threshold", (size_t)t->thresholds, t->threshold);
    if (t->result != QG__C_LEVEL) return;
    put_array(to, t->name, F32, "level", (size_t)r->q_count, x + qg__step_own_floats(r) + r->q_count - 1);
}

/* --- functions ------------------------------------------------------------------------------ */

/* Of what is summed: a word for functions, types of input, weight and sum, and the words of qg__c_sum. */
static const struct {
    const char *name, *x, *w, *sum, *add, *pad, *add_pad;
} inputs[QG__C_INPUTS] = {
    [QG__C_CODES]  = { "codes", "uint8_t", "weight", "int32_t",
                       "sum += w[k] * (v[k] + l->x_lowest)", "l->pad", "sum += w[k] * l->pad" },
    [QG__C_EXACT]  = { "floats", "float", "weight", "float",
                       "sum += (float)w[k] * v[k]", "l->pad_float", "sum += (float)w[k] * l->pad_float" },
    [QG__C_FUSED]  = { "fused", "float", "weight", "float", "sum = fused((float)w[k], v[k], sum)",
                       "l->pad_float", "sum = fused((float)w[k], l->pad_float, sum)" },
    [QG__C_FLOATS] = { "reals", "float", "float", "float", "sum = fused(w[k], v[k], sum)",
                       "l->pad_float", "sum = fused(w[k], l->pad_float, sum)" },
};

/* Of what a sum becomes: a word, its type, and how, before and after z. */
static const struct {
    const char *name, *y, *before, *after;
    bool        has_z;
} results[QG__C_RESULTS] = {
    [QG__C_BY_LEAST]      = { "codes", "uint8_t", "code_of_sum(l, o, sum)", "", false },
    [QG__C_BY_LINE]       = { "line_codes", "uint8_t", "code_on_line(l, o, sum)", "", false },
    [QG__C_BY_THRESHOLDS] = { "float_codes", "uint8_t", "(uint8_t)(l->code_step * find(l, ", "))", true },
    [QG__C_RESULT]        = { "floats", "float", "", "", true },
    [QG__C_LEVEL]         = { "levels", "float", "l->level[find(l, ", ")]", true },
};

static const char *function_of(const qg__c_stage *t, char name[NAME])
{
    snprintf(name, NAME, "%s_to_%s%s", inputs[t->input].name, results[t->result].name,
             t->s->r.two_sided ? "_of_sides" : "");
    return name;
}

/* Prints text with words in place of $a, $b, .. */
static void put_text(printer *to, const char *text, const char *const word['z' - 'a' + 1])
{
    for (const char *c = text; *c; c++) {
        if (*c == '$') fputs(word[*++c - 'a'], to->out);
        else fputc(*c, to->out);
    }
    fputc('\n', to->out);
}

#define WORD(letter) [(letter) - 'a']

static void put_sum(printer *to, qg__c_input in)
{
    const char *const word['z' - 'a' + 1] = {
        WORD('i') = inputs[in].name, WORD('w') = inputs[in].w,   WORD('x') = inputs[in].x,
        WORD('t') = inputs[in].sum,  WORD('a') = inputs[in].add, WORD('p') = inputs[in].pad,
        WORD('b') = inputs[in].add_pad,
    };
    put_text(to, qg__c_sum, word);
}

static void put_product(printer *to, const qg__c_stage *t)
{
    const qg__c_input  in   = t->input;
    const qg__c_result out  = t->result;
    const bool         sides = t->s->r.two_sided;
    char               name[NAME], value[NAME], second[NAME] = "";
    const char *z = sides ? "scaled_sides(l, o, (float)sum, (float)negative)" : "scaled(l, o, (float)sum)";
    if (!results[out].has_z) z = "";
    snprintf(value, sizeof value, "%s%s%s", results[out].before, z, results[out].after);
    if (sides)
        snprintf(second, NAME, "%20sconst %s negative = sum_of_%s(l, w + taps(l), own, top, left);\n", "",
                 inputs[in].sum, inputs[in].name);
    const char *const word['z' - 'a' + 1] = {
        WORD('n') = function_of(t, name), WORD('x') = inputs[in].x, WORD('y') = results[out].y,
        WORD('i') = inputs[in].name,      WORD('w') = inputs[in].w, WORD('t') = inputs[in].sum,
        WORD('s') = second,               WORD('v') = value,
        WORD('r') = in == QG__C_FLOATS ? "l->numbers + (size_t)o * (size_t)taps(l)" : "unpack(l, o)",
    };
    put_text(to, qg__c_product, word);
}

static bool has_layer(const qg__c_stage *t) { return kinds[t->s->r.kind].has_layer && !t->table; }

static void need_of_product(printer *to, const qg__c_stage *t)
{
    if (t->input == QG__C_FUSED || t->input == QG__C_FLOATS) to->part[QG__C_FUSED_SUM] = true;
    if (t->input != QG__C_FLOATS) to->part[QG__C_UNPACK] = true;
    if (t->result == QG__C_BY_LEAST) to->part[QG__C_CODE_OF_SUM] = true;
    if (t->result == QG__C_BY_LINE) to->part[QG__C_CODE_ON_LINE] = true;
    if (t->result == QG__C_BY_THRESHOLDS || t->result == QG__C_LEVEL) to->part[QG__C_FIND] = true;
    if (results[t->result].has_z)
        to->part[QG__C_ROUNDED] = to->part[t->s->r.two_sided ? QG__C_SCALED_SIDES : QG__C_SCALED] = true;
}

static void need_of(printer *to, const qg__c_stage *t)
{
    const int kind = t->s->r.kind;
    if (t->table) {
        if (!t->is_identity) to->part[QG__C_LOOK_UP] = true;
        return;
    }
    if (kind == QG__QUANTIZE && t->result == QG__C_LEVEL) to->part[QG__C_QUANTIZE_FLOATS] = true;
    else if (kind == QG__MAXPOOL && t->s->r.coding != QG__AS_FLOATS) to->part[QG__C_MAX_POOL_CODES] = true;
    else to->part[kinds[kind].part] = true;
    if (kind == QG__PRODUCT) need_of_product(to, t);
    if (kind == QG__QUANTIZE) to->part[QG__C_FIND] = true;
    if (kind == QG__SIGMOID || kind == QG__TANH) to->part[QG__C_EXP] = true;
    if (kind == QG__AFFINE || kind == QG__PRELU || kind == QG__RPRELU) to->part[QG__C_ROUNDED] = true;
    if (has_layer(t)) to->part[QG__C_LAYER] = true;
}

static void put_functions(printer *to)
{
    const qg__c_program *p = to->p;
    bool                 sum[QG__C_INPUTS] = { false };
    bool                 product[QG__C_INPUTS][QG__C_RESULTS][2] = { { { false } } };
    for (int k = 0; k < QG__C_PARTS; k++) {
        const bool        codes = k == QG__C_MAX_POOL_CODES;
        const char *const pool['z' - 'a' + 1] = { WORD('n') = codes ? "_codes" : "",
                                                  WORD('x') = codes ? "uint8_t" : "float" };
        if (!to->part[k]) continue;
        if (k == QG__C_UNPACK)
            fprintf(to->out, "typedef int%d_t weight;\nenum { ROW = %zu };       /* weights at a time */\n\n",
                    p->weight_bits, p->row);
        put_text(to, qg__c_parts[k], pool);
    }
    for (int i = 0; i < p->stages; i++) {
        const qg__c_stage *t = &p->stage[i];
        if (!qg__c_is_product(t)) continue;
        bool *own = &product[t->input][t->result][t->s->r.two_sided];
        if (!sum[t->input]) put_sum(to, t->input);
        if (!*own) put_product(to, t);
        sum[t->input] = *own = true;
    }
}

/* --- layers --------------------------------------------------------------------------------- */

static void put_field(printer *to, const char *name, int value)
{
    if (value) fprintf(to->out, " .%s = %d,", name, value);
}

static void put_product_fields(printer *to, const qg__c_stage *t)
{
    const qg__packed_step *r = &t->s->r;
    char                   pad[QG_NUMBER_BYTES];
    fprintf(to->out, "\n   ");
    put_field(to, "groups", r->groups);
    put_field(to, "pool", t->pool ? t->pool->r.kh : 1);
    put_field(to, "x_lowest", qg__c_codes(to->p, r->x).lowest);
    if (t->input == QG__C_CODES) put_field(to, "pad", (int)r->pad);
    else if (r->pad != 0) fprintf(to->out, " .pad_float = %s,", float_text(pad, r->pad));
    put_field(to, "bits", r->w_count ? r->w_bits : 0);
    put_field(to, "lowest", r->w_lowest);
    put_field(to, "step", r->w_step);
    put_field(to, "zeros", r->w_zeros);
    put_field(to, "sides", r->two_sided);
    put_field(to, "relu", r->relu && results[t->result].has_z);
}

static void put_layer(printer *to, const qg__c_stage *t)
{
    const qg__packed_step *r = &t->s->r, *y = t->pool ? &t->pool->r : r;
    const struct {
        const char *name;
        int         value;
    } sizes[] = { { "h", r->h },   { "w", r->w },   { "c", r->c },           { "oh", y->oh },
                  { "ow", y->ow }, { "oc", r->oc }, { "kh", r->kh },         { "kw", r->kw },
                  { "stride", r->stride }, { "top", r->top }, { "left", r->left } };
    fprintf(to->out, "static const layer %s_layer = {\n   ", t->name);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) put_field(to, sizes[i].name, sizes[i].value);
    if (qg__c_is_product(t)) put_product_fields(to, t);
    if (t->threshold) {
        put_field(to, "thresholds", t->thresholds);
        put_field(to, "first", t->first);
        put_field(to, "code_step", r->q_step);
    }
    for (int i = 0; i < to->arrays; i++)
        fprintf(to->out, "%s .%s = %s_%s,", i ? "" : "\n   ", to->array[i], t->name, to->array[i]);
    fprintf(to->out, "\n};\n\n");
}

/* --- calls ---------------------------------------------------------------------------------- */

/* The expression of a value. */
static const char *where(const qg__c_program *p, int value, char text[NAME])
{
    const qg__c_stage *t = &p->stage[value ? p->value[value].first : 0];
    if (value == p->s->count) return "scores";
    if (!value) return p->spec.floats_only ? "image" : "normalised";
    if (t->is_identity) return "image";
    snprintf(text, NAME, "%s_y", t->name);
    return text;
}

static const char *type_of(const qg__c_program *p, int value)
{
    return qg__c_codes(p, value).count ? "uint8_t" : "float";
}

static const char *image_type(const qg__c_program *p) { return p->spec.floats_only ? "float" : "uint8_t"; }

static void put_places(printer *to)
{
    const qg__c_program *p      = to->p;
    const char          *memory = "uint8_t";
    for (int v = 0; v <= p->s->count; v++)
        if (p->value[v].needed && !qg__c_codes(p, v).count) memory = "float";
    const size_t each = *memory == 'f' ? sizeof(float) : 1;
    if (p->memory) fprintf(to->out, "static %s memory[%zu];\n\n", memory, p->memory / each);
    fprintf(to->out, "int net_predict(const %s *image, float *scores);\n\n"
            "int net_predict(const %s *image, float *scores)\n{\n", image_type(p), image_type(p));
    for (int v = 0; v <= p->s->count; v++) {
        char         name[NAME];
        const size_t at = p->value[p->value[v].owner].at / each;
        if (!p->value[v].needed) continue;
        const char *type = type_of(p, v);
        fprintf(to->out, "    %s *const %s = (%s *)(memory + %zu);\n", type, where(p, v, name), type, at);
    }
}

static const char *count_text(char text[QG_NUMBER_BYTES], size_t n)
{
    snprintf(text, QG_NUMBER_BYTES, "%zu", n);
    return text;
}

static void put_call(printer *to, const qg__c_stage *t)
{
    const qg__packed_step *r = &t->s->r, *own = t->pool ? &t->pool->r : r;
    const bool             codes = r->coding != QG__AS_FLOATS, clips = r->kind == QG__CLIP;
    char                   x[NAME], y[NAME], z[NAME], f[NAME], count[4][QG_NUMBER_BYTES], end[2][QG_NUMBER_BYTES];
    const char *const      word['z' - 'a' + 1] = {
        WORD('x') = where(to->p, r->x, x),
        WORD('y') = where(to->p, t->value, y),
        WORD('z') = r->z >= 0 ? where(to->p, r->z, z) : "",
        WORD('n') = count_text(count[0], qg__c_numbers(to->p, r->x)),
        WORD('c') = count_text(count[1], (size_t)r->c),
        WORD('p') = count_text(count[2], (size_t)r->h * (size_t)r->w),
        WORD('o') = count_text(count[3], (size_t)r->oc),
        WORD('l') = t->name,
        WORD('f') = function_of(t, f),
        WORD('s') = r->kind == QG__QUANTIZE ? codes ? "" : "_floats" : codes ? "_codes" : "",
        WORD('e') = r->flag ? "1" : "0",
        WORD('i') = clips ? float_text(end[0], t->s->floats[0]) : "",
        WORD('j') = clips ? float_text(end[1], t->s->floats[1]) : "",
    };
    fputs("    ", to->out);
    put_text(to, t->table ? "look_up($n, $c, $l_table, image, $y);" : kinds[r->kind].call, word);
    fprintf(to->out, "    NET_TRACE(\"%s\", %s, %d, %d, %d, %d, %d);\n", t->name, word['y' - 'a'], codes ? 1 : 4,
            codes ? r->q_lowest : 0, own->oh, own->ow, r->oc);
}

static void put_predict(printer *to)
{
    const qg__c_program *p = to->p;
    fprintf(to->out, "/* %zu bytes of constants, %zu of memory and %zu for unpacked weights. */\n",
            to->constants, p->memory, p->row * (size_t)p->weight_bits / 8);
    put_places(to);
    if (p->value[0].needed)
        fprintf(to->out, "    normalise(%zu, %d, image_mean, image_deviation, image, normalised);\n",
                qg__c_numbers(p, 0), p->spec.numbers);
    for (int i = 0; i < p->stages; i++)
        if (!p->stage[i].is_identity) put_call(to, &p->stage[i]);
    fprintf(to->out, "    return largest(%zu, scores);\n}\n", qg__c_numbers(p, p->s->count));
}

/* --- the file ------------------------------------------------------------------------------- */

static const char *note_of(const qg__c_program *p, const char *key)
{
    for (int i = 0; i < p->spec.notes; i++)
        if (!strcmp(p->spec.note[i].key, key)) return p->spec.note[i].value;
    return NULL;
}

/* A line of the comment, if it is plain text that cannot end it. */
static void put_note(printer *to, const char *key)
{
    const char *value = note_of(to->p, key);
    for (const char *c = value; c && *c; c++)
        if (*c < ' ' || *c > '~' || strchr("*?\\", *c)) return;
    if (value) fprintf(to->out, " * %-10s %s\n", key, value);
}

/* Whether floats are summed, which must not be kept in wider registers. */
static bool sums_floats(const printer *to)
{
    static const qg__c_part parts[] = { QG__C_FUSED_SUM, QG__C_EXP,         QG__C_PRELU,       QG__C_ADD,
                                        QG__C_MULTIPLY,  QG__C_AVERAGE_POOL, QG__C_MEAN_ABS };
    bool                    sums    = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) sums = sums || to->part[parts[i]];
    for (int i = 0; i < to->p->stages; i++)
        sums = sums || (qg__c_is_product(&to->p->stage[i]) && to->p->stage[i].input != QG__C_CODES);
    return sums;
}

/* Whether the file has a program, which reads a PGM or PPM. */
static bool has_main(const printer *to)
{
    const int c = to->p->net->spec.channels;
    return !to->p->spec.floats_only && (c == 1 || c == 3);
}

static void put_head(printer *to)
{
    const qg__c_program *p = to->p;
    const qg_net_spec    s = p->net->spec;
    const size_t         n = qg__c_numbers(p, p->s->count);
    fprintf(to->out,
            "/* A net in C99, written by qgrad export --to c.\n *\n"
            " *     int net_predict(const %s *image, float *scores);\n *\n"
            " * reads image[%d][%d][%d], %s%s, writes scores[%zu] and returns the label,\n"
            " * the number of the highest score.  It needs no library and no heap, and works in static\n"
            " * memory: one call at a time.  Scores have the same bits on every machine.\n *\n",
            image_type(p), s.height, s.width, s.channels,
            p->spec.floats_only ? "normalised floats" : "bytes",
            s.channels == 3 ? " (red, green, blue)" : "", n);
    if (has_main(to))
        fprintf(to->out, " *     cc -std=c99 -O2 -DNET_MAIN -o net net.c && ./net image.%s\n *\n",
                s.channels == 3 ? "ppm" : "pgm");
    put_note(to, "model");
    put_note(to, "data");
    put_note(to, "digest");
    fprintf(to->out, " */\n#include <float.h>\n#include <stddef.h>\n#include <stdint.h>\n\n"
            "enum { NET_HEIGHT = %d, NET_WIDTH = %d, NET_CHANNELS = %d, NET_SCORES = %zu };\n\n",
            s.height, s.width, s.channels, n);
    if (sums_floats(to))
        fprintf(to->out, "#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 1\n"
                "#error \"each operation of floats must be rounded: on 32-bit x86, -msse2 -mfpmath=sse\"\n"
                "#endif\n");
    fprintf(to->out, "#ifdef __cplusplus\n"
            "#error \"compile this file as C; C++ declares extern \\\"C\\\" int net_predict(..)\"\n#endif\n"
            "#ifdef __FAST_MATH__\n#error \"-ffast-math would change the scores\"\n#endif\n\n"
            "/* Called with what each step has computed, [h][w][c] values of so many bytes.  A code is a\n"
            " * byte, which stands for lowest + byte; a float has four. */\n"
            "#ifndef NET_TRACE\n#define NET_TRACE(name, values, bytes, lowest, h, w, c)\n#endif\n\n");
}

/* The names of classes, or their numbers. */
static void put_names(printer *to)
{
    const int   n     = (int)qg__c_numbers(to->p, to->p->s->count);
    const char *names = note_of(to->p, "class-names");
    int         count = 1;
    for (const char *c = names; c && *c; c++) count += *c == '/';
    fprintf(to->out, "\n#if %sdefined NET_NAMES\n"
            "static const char *const net_names[NET_SCORES] = {\n", has_main(to) ? "defined NET_MAIN || " : "");
    for (int i = 0; i < n && (!names || count != n); i++) fprintf(to->out, "    \"%d\",\n", i);
    if (names && count == n) fprintf(to->out, "    \"");
    for (const char *c = names; c && *c && count == n; c++) {
        const bool plain = *c >= ' ' && *c <= '~' && !strchr("\"\\?", *c);
        if (*c == '/') fprintf(to->out, "\",\n    \"");
        else fprintf(to->out, plain ? "%c" : "\\%03o", (unsigned)(unsigned char)*c);
    }
    fprintf(to->out, "%s};\n#endif\n\n", names && count == n ? "\",\n" : "");
}

static void put_main(printer *to)
{
    const bool        rgb = to->p->net->spec.channels == 3;
    const char *const word['z' - 'a' + 1] = { WORD('p') = rgb ? "6" : "5", WORD('k') = rgb ? "PPM" : "PGM" };
    put_names(to);
    if (!has_main(to)) return;
    put_text(to, qg__c_main, word);
}

static qg_status print_program(const void *what, FILE *out)
{
    const qg__c_program *p  = what;
    printer              to = { .p = p, .out = out };
    for (int i = 0; i < p->stages; i++) need_of(&to, &p->stage[i]);
    if (p->value[0].needed) to.part[QG__C_NORMALISE] = to.part[QG__C_ROUNDED] = true;
    to.part[QG__C_LARGEST] = true;
    put_head(&to);
    put_functions(&to);
    for (int i = 0; i < p->stages; i++) {
        put_arrays(&to, &p->stage[i]);
        if (has_layer(&p->stage[i])) put_layer(&to, &p->stage[i]);
    }
    if (p->value[0].needed) {
        to.arrays = 0;
        put_array(&to, "image", F32, "mean", (size_t)p->spec.numbers, p->spec.mean);
        put_array(&to, "image", F32, "deviation", (size_t)p->spec.numbers, p->spec.deviation);
    }
    put_predict(&to);
    put_main(&to);
    return QG_OK;
}

qg_status qg__write_c(const qg_net *net, const qg__records *s, qg_export_spec spec, unsigned char **file,
                      size_t *bytes)
{
    qg__c_program p      = { .net = net, .s = s, .spec = spec };
    char         *text   = NULL;
    qg_status     status = qg__c_program_find(&p);
    if (!status) status = qg__text_print(print_program, &p, &text, bytes);
    *file = (unsigned char *)text;
    qg__arena_release(&p.arena);
    return status;
}
