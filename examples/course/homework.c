/* Homework, an example: a scheme of one's own, whose gradient is checked before it trains.
 *
 *     build/examples/course/homework */
#include "sample.h"

/* Fifteen levels, dense near 0 where most weights are:  q(w) = sign(w) (c / 7)^2,  c = round(7 sqrt|w|), at
 * most 7.  The slope is that of s(w) = clip(w, -1, 1). */
static qg_var *apply(qg_tape *t, const qg_binding *b, qg_var *w, qg_var *const *learned)
{
    static const qg_op op = { .name = "square-law", .backward = qg_surrogate_backward };
    (void)b, (void)learned;
    qg_var *q = qg_record_surrogate(t, &op, w, qg_surrogate_clip(1));
    for (size_t i = 0, n = q ? qg_count(q->shape) : 0; i < n; i++) {
        const float c = fminf(rintf(7 * sqrtf(fabsf(w->data[i]))), 7);
        q->data[i]    = copysignf(c * c / 49, w->data[i]);
    }
    return q;
}

static const qg_scheme square_law = { .name = "square-law", .bits = 4, .roles = QG_WEIGHT, .apply = apply,
                                      .explain = "q(w) = sign(w) (round(7 sqrt|w|) / 7)^2\n" };

/* The op as the check calls it, and two claims of what its surrogate is. */
static qg_var *op(qg_tape *t, qg_var *x, void *none) { (void)none; return apply(t, NULL, x, NULL); }
static double  clip(double x, void *none) { (void)none; return fmax(-1, fmin(1, x)); }
static double  line(double x, void *none) { (void)none; return x; }

static double accuracy(qg_quant weight, uint64_t seed)
{
    qg_net *net = qg_net_from_text("64FC-BN-R-64FC-BN-R-10", (qg_model_spec){
                      .height = 28, .width = 28, .channels = 1, .seed = seed, .weight = weight });
    const double result = learn(net, 3, seed);
    qg_net_free(net);
    return result;
}

static int check(const char *claim, double (*s)(double, void *))
{
    qg_gradcheck_result r;
    if (qg_slopecheck((qg_slopecheck_spec){ .name = "square-law", .op = op, .surrogate = s, .lo = -1.5f,
                                            .hi = 1.5f }, &r)) return 1;
    return printf("slope of s(w) = %-14s  error %.1e  %s\n", claim, r.error, r.pass ? "pass" : "FAIL") < 0;
}

int main(void)
{
    const qg_quant mine = qg_quant_defaults((qg_quant){ .scheme = &square_law });
    if (check("clip(w, -1, 1)", clip) || check("w", line)) return qg_print_error("homework");
    printf("seed     float  square-law\n");
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const double of_float = accuracy((qg_quant){ 0 }, seed), of_mine = accuracy(mine, seed);
        if (isnan(of_float) || isnan(of_mine)) return qg_print_error("homework");
        printf("%4d  %6.1f %%    %6.1f %%\n", (int)seed, of_float, of_mine);
    }
    return 0;
}
