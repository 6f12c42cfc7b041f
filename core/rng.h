/* core/rng.h — keyed random numbers.
 *
 * A stream is a 64-bit key, and draw i of a stream is a pure function of (key, i).  Generators
 * have no state, so a draw depends neither on earlier draws, nor on the thread, nor on whether the
 * run was resumed.
 * The generator is the SplitMix64 finaliser of key and counter (Steele, Lea, Flood 2014).
 */
#ifndef QG_RNG_H
#define QG_RNG_H

#include <stddef.h>
#include <stdint.h>

/* 64 random bits; every bit of key and i reaches every bit of the result. */
static inline uint64_t qg_bits(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* An independent key for a purpose: qg_rng_fork(seed, QG_STREAM_SHUFFLE). */
static inline uint64_t qg_rng_fork(uint64_t key, uint64_t stream)
{
    return qg_bits(qg_bits(key, stream) ^ 0xD1B54A32D192ED03u, stream);
}

/* Uniform in [0, 1), 24 bits: every value is exact in float. */
static inline float qg_uniform(uint64_t key, uint64_t i)
{
    return (float)(qg_bits(key, i) >> 40) * (1.0f / 16777216);
}

/* The same for noise on every gradient of a step, by multiplications of 32 bits, which vectors have on every instruction set.
 * The mixing steps are those of lowbias32 (Wellons, https://nullprogram.com/blog/2018/07/31/). */
static inline float qg_uniform_fast(uint64_t key, uint64_t i)
{
    uint32_t z = (uint32_t)key ^ ((uint32_t)i * 0x9E3779B9u + (uint32_t)(key >> 32) + (uint32_t)(i >> 32) * 0x85EBCA6Bu);
    z = (z ^ (z >> 16)) * 0x7FEB352Du;
    z = (z ^ (z >> 15)) * 0x846CA68Bu;
    return (float)(int32_t)((z ^ (z >> 16)) >> 8) * (1.0f / 16777216);
}

float qg_normal(uint64_t key, uint64_t i);                              /* mean 0, variance 1 */

/* What a seed is forked for.  Files and results depend on these numbers. */
enum { QG_STREAM_INIT = 1, QG_STREAM_SHUFFLE = 2, QG_STREAM_AUGMENT = 3, QG_STREAM_TAPE = 4, QG_STREAM_HOLDOUT = 5 };

#endif
