/* Chapter 2: a tape on one page.
 *
 * A var is one number on the tape.  An op computes its value at once and notes from which vars it came (a, b)
 * and how fast it changes with each (da, db).  backward walks the tape from the newest var to the oldest and
 * applies the chain rule, one multiplication and one addition per operand.  Chapter 6 trains nets with it. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum { VARS = 1 << 16 };

typedef struct var {
    const char *op;
    int         a, b;           /* operands, as places on the tape; -1: none */
    double      da, db;         /* d value / d operand */
    double      value, grad;    /* grad: d loss / d value */
} var;

static var tape[VARS];
static int n_vars;

static int record(const char *op, double value, int a, double da, int b, double db)
{
    tape[n_vars] = (var){ .op = op, .a = a, .b = b, .da = da, .db = db, .value = value };
    return n_vars++;
}

static double value(int i) { return tape[i].value; }

static int leaf(double v) { return record("leaf", v, -1, 0, -1, 0); }
static int add(int a, int b) { return record("add", value(a) + value(b), a, 1, b, 1); }
static int mul(int a, int b) { return record("mul", value(a) * value(b), a, value(b), b, value(a)); }
static int tanh_of(int a)
{
    const double y = tanh(value(a));
    return record("tanh", y, a, 1 - y * y, -1, 0);
}

/* A quantizer is an op like any other, whose slope is declared: q is its value, slope what backward uses. */
static int quantized(int w, double q, double slope) { return record("quantize", q, w, slope, -1, 0); }

static void backward(int loss)
{
    for (int i = 0; i < n_vars; i++) tape[i].grad = 0;
    tape[loss].grad = 1;
    for (int i = loss; i >= 0; i--) {
        const var *v = &tape[i];
        if (v->a >= 0) tape[v->a].grad += v->grad * v->da;
        if (v->b >= 0) tape[v->b].grad += v->grad * v->db;
    }
}
