#include "core/profile.h"

#include <string.h>

#include "core/clock.h"
#include "core/walk.h"

static qg_profile_row *row_of(qg_profile *p, const char *op)
{
    for (int i = 0; i < p->rows; i++)
        if (!strcmp(p->row[i].op, op)) return &p->row[i];
    if (p->rows == QG_PROFILE_ROWS) return NULL;
    p->row[p->rows] = (qg_profile_row){ .op = op };
    return &p->row[p->rows++];
}

void qg__watch_forward(qg__stopwatch *w, const char *op)
{
    if (!w->profile) return;
    const double now = qg__now();
    if (w->running) {
        w->running->forward += now - w->since;
        w->running->forward_flops += w->timed ? w->timed->flops : 0;
    }
    w->running = op ? row_of(w->profile, op) : NULL;
    w->since   = now;
    w->timed   = NULL;
}

void qg__watch_record(qg__stopwatch *w, const qg_var *y)
{
    if (w->running) w->running->calls++;
    w->timed = y;
}

void qg__watch_backward(qg__stopwatch *w, qg_tape *t, qg_var *y)
{
    const double start = w->profile ? qg__now() : 0;
    y->op->backward(t, y);
    qg_profile_row *row = w->profile ? row_of(w->profile, y->op->name) : NULL;
    if (!row) return;
    row->backward += qg__now() - start;
    for (int i = 0; i < 2; i++)         /* each gradient of a product costs as much as the product */
        if (y->in[i] && y->in[i]->grad) row->backward_flops += y->flops;
}
