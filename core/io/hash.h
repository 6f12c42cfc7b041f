/* core/io/hash.h — 64-bit FNV-1a (Fowler, Noll, Vo), for digests that tell things apart, and a faster hash for
 * checksums.  Neither protects against tampering. */
#ifndef QG_HASH_H
#define QG_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define QG_HASH_BASIS 0xCBF29CE484222325u

/* h: QG_HASH_BASIS, or the hash of the bytes before. */
static inline uint64_t qg_hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001B3u;
    return h;
}

/* One step of a faster hash.  For a given h, different words always give different results. */
static inline uint64_t qg_hash_word(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0xBF58476D1CE4E5B9u;
    return (h ^ h >> 32) * 0x94D049BB133111EBu;
}

/* Hashes eight bytes at a time, the last ones padded with zeros, and then n.  It is for checksums of large data: a change
 * within one group of eight bytes always changes the result. */
static inline uint64_t qg_hash_words(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *b    = bytes;
    const size_t         tail = n % sizeof(uint64_t);
    uint64_t             word;
    for (size_t i = 0; i < n - tail; i += sizeof word) {
        memcpy(&word, b + i, sizeof word);
        h = qg_hash_word(h, word);
    }
    word = 0;
    if (tail) memcpy(&word, b + (n - tail), tail);
    return qg_hash_word(qg_hash_word(h, word), n);
}

#endif
