#include "layers/net_private.h"

qg_array qg_param_array(const qg_param *p)
{
    const qg_shape s    = p->shape;
    const size_t   n    = (size_t)s.n, h = (size_t)s.h, w = (size_t)s.w, c = (size_t)s.c;
    const int      rank = p->rank ? p->rank : s.h > 1 || s.w > 1 ? 4 : s.n > 1 ? 2 : 1;
    if (rank == 4) return (qg_array){ QG_F32, 4, { n, h, w, c }, p->value };
    if (rank == 2) return (qg_array){ QG_F32, 2, { n, c }, p->value };
    return (qg_array){ QG_F32, 1, { c }, p->value };
}

/* Why qg_net_params has given none. */
static qg_status missing(const qg_net *net)
{
    return net ? qg_errcode() : qg_fail_null(QG_EARG, "net");
}

void qg_net_state(qg_net *net, qg_state *s)
{
    const qg_params *params = qg_net_params(net);
    if (!params) qg_state_refuse(s, missing(net));
    for (int i = 0; params && i < params->count; i++)
        (void)qg_state_add(s, params->item[i]->name, qg_param_array(params->item[i]));
    (void)qg_state_note(s, "layout", "conv2d [out,kh,kw,in], dense [out,in] or [out,h,w,in]");
}

static qg_status transfer(qg_net *net, const char *path, bool save)
{
    if (!qg_net_params(net)) return missing(net);
    qg_state *s = qg_state_new();
    if (!s) return QG_EMEM;
    qg_net_state(net, s);
    const qg_status status = save ? qg_state_save(s, path) : qg_state_load(s, path);
    qg_state_free(s);
    return status;
}

qg_status qg_net_save(qg_net *net, const char *path) { return transfer(net, path, true); }
qg_status qg_net_load(qg_net *net, const char *path) { return transfer(net, path, false); }
