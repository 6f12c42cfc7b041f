#include "train/distil.h"

#include <math.h>

#include "layers/plan.h"

const qg_key qg__distil_keys[] = {
    [QG__DISTIL_TEMPERATURE] = { .name = "temperature", .fallback = 4, .max = INFINITY,
                                 .is = QG_KEY_ABOVE_MIN | QG_KEY_SHOWN, .about = "divides the scores of both nets" },
    [QG__DISTIL_WEIGHT]      = { .name = "weight", .fallback = 0.9, .max = 1, .is = QG_KEY_ABOVE_MIN | QG_KEY_SHOWN,
                                 .about = "of the teacher's scores; that of the labels is 1 - weight" },
    [QG__DISTIL_KEYS]        = { .name = NULL }
};

static float or_default(float value, int key) { return value == 0 ? (float)qg__distil_keys[key].fallback : value; }

static qg_shape input_of(const qg_net *net) { return qg_net_layer(net, 0)->in; }
static qg_shape result_of(const qg_net *net) { return qg_net_layer(net, qg_net_layers(net) - 1)->out; }

static qg_status check_shape(const char *what, qg_shape teacher, qg_shape net)
{
    if (qg_shape_equal(teacher, net)) return QG_OK;
    return qg_fail(QG_ESHAPE, "teacher: its %s is %dx%dx%d, that of the net %dx%dx%d", what, teacher.h, teacher.w, teacher.c,
                   net.h, net.w, net.c);
}

qg_status qg__teacher_check(const qg_net *net, qg_fit_teacher *t)
{
    t->temperature = or_default(t->temperature, QG__DISTIL_TEMPERATURE);
    t->weight      = or_default(t->weight, QG__DISTIL_WEIGHT);
    if (!qg_net_params(t->net)) return qg_fail(qg_errcode(), "teacher: %s", qg_errmsg());
    const double value[QG__DISTIL_KEYS] = { (double)t->temperature, (double)t->weight };
    if (qg__keys_check("teacher", qg__distil_keys, value)) return QG_EARG;
    const qg_status status = check_shape("image", input_of(t->net), input_of(net));
    return status ? status : check_shape("result", result_of(t->net), result_of(net));
}

qg_var *qg__distil(const qg_fit_teacher *teacher, qg_tape *of_teacher, qg_tape *t, qg_var *scores, qg_var *loss,
                   const qg_batch *b)
{
    if (!loss) return NULL;
    qg_tape_begin(of_teacher, QG_EVAL, 0, qg__step_given(teacher->steps));
    const qg_var *soft = qg_net_forward(teacher->net, of_teacher, b->x);
    if (!soft) return qg_reject(t, qg_tape_status(of_teacher), "teacher: %s", qg_errmsg());
    qg_var *taught = qg_input(t, (qg_tensor){ soft->shape, soft->data, soft->batch });
    qg_var *kl = qg_kl(t, scores, taught, teacher->temperature);
    return qg_add(t, qg_scale(t, loss, 1 - teacher->weight), qg_scale(t, kl, teacher->weight));
}
