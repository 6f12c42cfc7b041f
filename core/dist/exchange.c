/* Everything is made of exchanges between two ranks whose numbers differ in one bit, first in the lowest.  After the
 * exchange over bit k, the 2^(k+1) ranks whose numbers differ in bits 0 .. k have the same. */
#include "core/dist/exchange.h"

#include <string.h>

bool qg__ranks_passed(qg_tape *t, qg_status status)
{
    if (status) qg_reject(t, status, "%s", qg_errmsg());
    return !status;
}

bool qg__ranks_gather(qg_tape *t, void *data, const size_t *start)
{
    qg_status status = QG_OK;
    for (int bit = 1; bit < qg_ranks() && !status; bit *= 2) {
        const int    mine = qg_rank() & ~(bit - 1), other = mine ^ bit;
        const size_t out = start[mine + bit] - start[mine], in = start[other + bit] - start[other];
        status = qg__ranks_exchange(qg_rank() ^ bit, (char *)data + start[mine], (char *)data + start[other], out, in);
    }
    return qg__ranks_passed(t, status);
}

/* --- without a tape ------------------------------------------------------------------------- */

qg_status qg_ranks_broadcast(void *data, size_t bytes)
{
    qg_status status = QG_OK;
    char      none;
    for (int bit = 1; bit < qg_ranks() && !status; bit *= 2) {
        const bool has = qg_rank() < bit, gets = !has && qg_rank() < 2 * bit;
        if (has) status = qg__ranks_exchange(qg_rank() + bit, data, &none, bytes, 0);
        else if (gets) status = qg__ranks_exchange(qg_rank() - bit, &none, data, 0, bytes);
    }
    return status;
}

qg_status qg__ranks_tell(char *text, size_t bytes)
{
    char      other[1024];
    qg_status status = QG_OK;
    QG_ASSERT(bytes <= sizeof other);
    for (int bit = 1; bit < qg_ranks() && !status; bit *= 2) {
        status = qg__ranks_exchange(qg_rank() ^ bit, text, other, bytes, bytes);
        if (!status && *other && (!*text || qg_rank() & bit)) memcpy(text, other, bytes);
    }
    return status;
}

bool qg_ranks_any(bool here)
{
    char said = here;
    for (int bit = 1; bit < qg_ranks(); bit *= 2) {
        char other = 1;         /* a rank that cannot be reached has stopped */
        if (qg__ranks_exchange(qg_rank() ^ bit, &said, &other, 1, 1)) return true;
        said |= other;
    }
    return said;
}
