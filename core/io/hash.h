/* core/io/hash.h — 64-bit FNV-1a (Fowler, Noll, Vo), for digests that tell things apart.  It does not protect
 * against tampering. */
#ifndef QG_HASH_H
#define QG_HASH_H

#include <stddef.h>
#include <stdint.h>

#define QG_HASH_BASIS 0xCBF29CE484222325u

/* h: QG_HASH_BASIS, or the hash of the bytes before. */
static inline uint64_t qg_hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001B3u;
    return h;
}

#endif
