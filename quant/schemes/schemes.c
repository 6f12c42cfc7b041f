/* The library's schemes by name. */
#include <string.h>

#include "core/io/paths.h"
#include "quant/schemes/formulas.h"

const qg_scheme *const qg_schemes[] = {
    &qg__twn_scheme,  &qg__binary_scheme,          &qg__binary_channel_scheme,    &qg__ste_tern_scheme,
    &qg__ttq_scheme,  &qg__dorefa_weight_scheme,   &qg__xnor_scheme,              &qg__magnitude_aware_scheme,
    &qg__binaryconnect_scheme, &qg__bnn_scheme,    &qg__bop_scheme,   &qg__irnet_scheme,             &qg__adabin_scheme,
    &qg__recu_scheme,
    &qg__sign_scheme, &qg__xnor_activation_scheme, &qg__dorefa_activation_scheme, &qg__fake_quant_scheme,
    &qg__lsq_scheme,  &qg__pact_scheme,            &qg__linear_scheme,            &qg__unit_scheme,
    &qg__qdq_scheme,  &qg__adabin_input_scheme,
    &qg__dorefa_gradient_scheme, &qg__stochastic_gradient_scheme,
    NULL,
};

static bool is_called(const char *name, const char *text, size_t n) { return strlen(name) == n && !strncmp(name, text, n); }

static qg_status refuse(const char *text, size_t n, qg_role role)
{
    char names[256] = "float", others[64] = "";
    for (unsigned r = QG_WEIGHT; r <= QG_GRADIENT; r *= 2)
        for (const qg_scheme *const *s = qg_schemes; *s; s++) {
            char plural[16];
            if (!((*s)->roles & r)) continue;
            if (r == (unsigned)role) qg__list_append(names, sizeof names, (*s)->name);
            else if (is_called((*s)->name, text, n)) {
                snprintf(plural, sizeof plural, "%ss", qg_role_name((qg_role)r));
                qg__list_append(others, sizeof others, plural);
            }
        }
    if (*others)
        return qg_fail(QG_EARG, "%.*s is a scheme for %s, not for %ss; available: %s", (int)n, text, others,
                       qg_role_name(role), names);
    char       hint[QG__NEAREST_BYTES];
    const bool ternary = role == QG_WEIGHT && n >= 4 && !strncmp(text, "ternary", n);
    const size_t name = strcspn(text, ",");
    if (name < n)
        return qg_fail(QG_EARG, "unknown scheme '%.*s' for %ss; options follow a colon, as in %.*s:key=value",
                       (int)n, text, qg_role_name(role), (int)name, text);
    return qg_fail(QG_EARG, "unknown scheme '%.*s' for %ss; available: %s%s", (int)n, text, qg_role_name(role), names,
                   ternary ? "; did you mean twn?" : qg__list_nearest(names, text, n, hint));
}

qg_status qg_quant_parse(const char *text, qg_role role, qg_quant *q)
{
    return qg__quant_parse_as(QG_DEFAULTS, text, role, q);
}

qg_status qg__quant_parse_as(int version, const char *text, qg_role role, qg_quant *q)
{
    if (!text || !q) return qg__fail_null(QG_EARG, "qg_quant_parse: text or q");
    const size_t n    = strcspn(text, ":");
    const char  *rest = text[n] ? text + n + 1 : NULL;
    if (is_called("float", text, n)) {
        *q = (qg_quant){ 0 };
        return rest ? qg_fail(QG_EARG, "float has no options") : QG_OK;
    }
    for (const qg_scheme *const *s = qg_schemes; *s; s++)
        if ((*s)->roles & role && is_called((*s)->name, text, n))
            return qg__scheme_parse_as(version, *s, role, rest, q);
    return refuse(text, n, role);
}
