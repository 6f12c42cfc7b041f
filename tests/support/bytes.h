/* tests/support/bytes.h — little-endian numbers at any address. */
#ifndef BYTES_H
#define BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint16_t get_u16(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t get_u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void put_u16(unsigned char *p, uint16_t v) { memcpy(p, &v, sizeof v); }
static inline void put_u64(unsigned char *p, uint64_t v) { memcpy(p, &v, sizeof v); }

#endif
