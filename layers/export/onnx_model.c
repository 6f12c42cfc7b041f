#include "layers/export/onnx_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IR_VERSION = 7, OPSET = 13 };

/* Fields of onnx.proto, and AttributeProto.AttributeType. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14,
       OPSET_VERSION = 2, ENTRY_KEY = 1, ENTRY_VALUE = 2, GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5,
       GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4,
       NODE_ATTRIBUTE = 5, ATTRIBUTE_NAME = 1, ATTRIBUTE_INT = 3, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20,
       IS_INT = 2, IS_INTS = 7, TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_DATA = 9,
       INFO_NAME = 1, INFO_TYPE = 2, TYPE_TENSOR = 1, TYPE_ELEMENT = 1, TYPE_SHAPE = 2, SHAPE_DIM = 1,
       DIM_VALUE = 1, DIM_PARAM = 2 };

void *qg__onnx_take(qg__onnx *m, size_t bytes)
{
    void *memory = qg__arena_take(&m->arena, bytes ? bytes : 1);
    if (!memory && !m->status) m->status = qg_fail(QG_EMEM, "out of memory: an ONNX file");
    return memory;
}

/* --- Protocol Buffers --------------------------------------------------------------------------- */

enum { VARINT = 0, LENGTH_DELIMITED = 2, VARINT_BYTES = 10 };

/* n more bytes, to be written. */
static unsigned char *append(qg__onnx *m, size_t n)
{
    if (m->status) return NULL;
    if (n > INT32_MAX - m->n) {
        m->status = qg_fail(QG_ESHAPE, "an ONNX file has at most 2^31 - 1 bytes, and this net needs more");
        return NULL;
    }
    if (n > m->room - m->n) {
        const size_t   room = 2 * (m->n + n);
        unsigned char *more = realloc(m->bytes, room);
        if (!more) {
            m->status = qg_fail(QG_EMEM, "out of memory: an ONNX file");
            return NULL;
        }
        m->bytes = more, m->room = room;
    }
    m->n += n;
    return m->bytes + m->n - n;
}

static void put(qg__onnx *m, const void *bytes, size_t n)
{
    unsigned char *at = append(m, n);
    if (at && n) memcpy(at, bytes, n);
}

/* Seven bits a byte, the lowest first. */
static size_t varint(uint64_t v, unsigned char to[VARINT_BYTES])
{
    size_t n = 0;
    for (; v >= 128; v >>= 7) to[n++] = (unsigned char)(v | 128);
    to[n++] = (unsigned char)v;
    return n;
}

static void put_varint(qg__onnx *m, uint64_t v)
{
    unsigned char bytes[VARINT_BYTES];
    put(m, bytes, varint(v, bytes));
}

static void put_integer(qg__onnx *m, int field, int64_t v)
{
    put_varint(m, (uint64_t)field << 3 | VARINT);
    put_varint(m, (uint64_t)v);
}

/* What close_message takes. */
static size_t open_message(qg__onnx *m, int field)
{
    put_varint(m, (uint64_t)field << 3 | LENGTH_DELIMITED);
    return m->n;
}

/* Moves the message to make room for its length. */
static void close_message(qg__onnx *m, size_t begin)
{
    unsigned char length[VARINT_BYTES];
    const size_t  n = m->n - begin, own = varint(n, length);
    if (!append(m, own)) return;
    memmove(m->bytes + begin + own, m->bytes + begin, n);
    memcpy(m->bytes + begin, length, own);
}

static void put_bytes(qg__onnx *m, int field, const void *bytes, size_t n)
{
    open_message(m, field);
    put_varint(m, n);
    put(m, bytes, n);
}

static void put_text(qg__onnx *m, int field, const char *text) { put_bytes(m, field, text, strlen(text)); }

/* --- nodes -------------------------------------------------------------------------------------- */

/* "conv1.Mul_7": the number makes it unique, whatever layers are called. */
static qg__tensor name_of(qg__onnx *m, const char *what)
{
    const size_t n    = strlen(m->part) + strlen(what) + 16;
    char        *name = qg__onnx_take(m, n);
    if (!name) return "";
    snprintf(name, n, "%s.%s_%d", m->part, what, ++m->names);
    return name;
}

static void close_node(qg__onnx *m, const char *output)
{
    if (!m->node) return;
    put_text(m, NODE_OUTPUT, output);
    put_text(m, NODE_NAME, output);
    close_message(m, m->node);
    m->node = 0;
}

qg__tensor qg__onnx_node(qg__onnx *m, const char *type, int n, const qg__tensor *inputs)
{
    close_node(m, m->newest);
    m->node = open_message(m, GRAPH_NODE);
    for (int i = 0; i < n; i++) put_text(m, NODE_INPUT, inputs[i]);
    put_text(m, NODE_TYPE, type);
    return m->newest = name_of(m, type);
}

static void put_attribute(qg__onnx *m, const char *attribute, int type, int field, int n, const int64_t *v)
{
    const size_t at = open_message(m, NODE_ATTRIBUTE);
    put_text(m, ATTRIBUTE_NAME, attribute);
    put_integer(m, ATTRIBUTE_TYPE, type);
    for (int i = 0; i < n; i++) put_integer(m, field, v[i]);
    close_message(m, at);
}

void qg__onnx_integer(qg__onnx *m, const char *attribute, int64_t v)
{
    put_attribute(m, attribute, IS_INT, ATTRIBUTE_INT, 1, &v);
}

void qg__onnx_integers(qg__onnx *m, const char *attribute, int n, const int64_t *v)
{
    put_attribute(m, attribute, IS_INTS, ATTRIBUTE_INTS, n, v);
}

qg__tensor qg__onnx_constant(qg__onnx *m, const char *what, qg__element type, int dims, const int64_t *dim,
                             const void *data)
{
    size_t bytes = type == QG__INT64 ? 8 : type == QG__FLOAT || type == QG__INT32 ? 4 : 1;
    close_node(m, m->newest);
    const qg__tensor name = name_of(m, what);
    const size_t     at   = open_message(m, GRAPH_CONSTANT);
    for (int i = 0; i < dims; i++) {
        put_integer(m, TENSOR_DIMS, dim[i]);
        bytes *= (size_t)dim[i];
    }
    put_integer(m, TENSOR_TYPE, type);
    put_text(m, TENSOR_NAME, name);
    if (data) put_bytes(m, TENSOR_DATA, data, bytes);
    close_message(m, at);
    return name;
}

/* --- the model ---------------------------------------------------------------------------------- */

void qg__onnx_begin(qg__onnx *m, int notes, const qg_note *note)
{
    put_integer(m, MODEL_IR, IR_VERSION);
    put_text(m, MODEL_PRODUCER, "qgrad");
    const size_t opset = open_message(m, MODEL_OPSET);
    put_integer(m, OPSET_VERSION, OPSET);
    close_message(m, opset);
    for (int i = 0; i < notes; i++) {
        const size_t entry = open_message(m, MODEL_METADATA);
        put_text(m, ENTRY_KEY, note[i].key);
        put_text(m, ENTRY_VALUE, note[i].value);
        close_message(m, entry);
    }
    m->graph = open_message(m, MODEL_GRAPH);
    put_text(m, GRAPH_NAME, "net");
}

static void put_end(qg__onnx *m, int field, qg__onnx_end e)
{
    const size_t info = open_message(m, field);
    put_text(m, INFO_NAME, e.name);
    const size_t of = open_message(m, INFO_TYPE), numbers = open_message(m, TYPE_TENSOR);
    put_integer(m, TYPE_ELEMENT, e.type);
    const size_t shape = open_message(m, TYPE_SHAPE);
    for (int i = 0; i < e.dims; i++) {
        const size_t at = open_message(m, SHAPE_DIM);
        if (i) put_integer(m, DIM_VALUE, e.dim[i]);
        else put_text(m, DIM_PARAM, "N");
        close_message(m, at);
    }
    close_message(m, shape);
    close_message(m, numbers);
    close_message(m, of);
    close_message(m, info);
}

void qg__onnx_finish(qg__onnx *m, qg__onnx_end input, qg__onnx_end output)
{
    close_node(m, output.name);
    put_end(m, GRAPH_INPUT, input);
    put_end(m, GRAPH_OUTPUT, output);
    close_message(m, m->graph);
}
