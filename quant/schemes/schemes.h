/* quant/schemes/schemes.h — the library's schemes by name. */
#ifndef QG_SCHEMES_H
#define QG_SCHEMES_H

#include "quant/scheme.h"

/* All of them, NULL at the end.  Only qg_quant_parse reads the list. */
extern const qg_scheme *const qg_schemes[];

/* The quantizer that "ttq:threshold=0.05" names for tensors of a role; "float" is {0}.
 *
 * Fails    QG_EARG: no such scheme for this role, or an illegal argument; the message lists what is legal. */
QG_MUST_CHECK
qg_status qg_quant_parse(const char *text, qg_role role, qg_quant *q);

/* The same for a text that was written with this version of the defaults. */
QG_MUST_CHECK
qg_status qg__quant_parse_as(int version, const char *text, qg_role role, qg_quant *q);

#endif
