/* core/kernels/block.h — elementwise work, cut into blocks whose size does not depend on the machine.
 *
 * Block b of n elements is [qg_block(n, b), qg_block(n, b + 1)), and qg_blocks(n) of them go to
 * qg_parallel.  A tensor of one block runs on the calling thread.
 */
#ifndef QG_BLOCK_H
#define QG_BLOCK_H

#include <stddef.h>

/* 64 KiB of floats: three operands stay in a core's second-level cache, and the work outweighs
 * waking a thread. */
enum { QG_BLOCK = 16384 };

static inline int qg_blocks(size_t n) { return (int)((n + QG_BLOCK - 1) / QG_BLOCK); }

static inline size_t qg_block(size_t n, int b)
{
    const size_t at = (size_t)b * QG_BLOCK;
    return at < n ? at : n;
}

#endif
