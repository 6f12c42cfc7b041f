/* tests/export/lines.h — what a net in C computes of an image, as a line of text that is the same on
 * every machine: a hash of what each step has computed, the bits of the scores, and the label.  The
 * file that includes it has declared put(text), and NET is the net. */
#include <stdint.h>

static void trace(const char *name, const void *values, int bytes, int n);
#define NET_TRACE(name, values, bytes, lowest, h, w, c) trace(name, values, bytes, (h) * (w) * (c))
#include NET

static void put_hex(uint32_t x)
{
    char text[9] = { 0 };
    for (int i = 0; i < 8; i++) text[i] = "0123456789abcdef"[x >> (28 - 4 * i) & 15];
    put(text);
}

static uint32_t bits_of(float x)
{
    union { float value; uint32_t bits; } u;
    u.value = x;
    return u.bits;
}

/* FNV-1a of codes, and of floats as integers. */
static void trace(const char *name, const void *values, int bytes, int n)
{
    uint32_t hash = 0x811c9dc5u;
    for (int i = 0; i < n; i++) {
        const uint32_t v = bytes == 1 ? ((const uint8_t *)values)[i] : bits_of(((const float *)values)[i]);
        hash = (hash ^ v) * 0x01000193u;
    }
    put(name);
    put(" ");
    put_hex(hash);
    put(" ");
}

static void put_line(const uint8_t *image)
{
    static float scores[NET_SCORES];
    const int    label = net_predict(image, scores);
    for (int k = 0; k < NET_SCORES; k++) put_hex(bits_of(scores[k])), put(" ");
    put_hex((uint32_t)label);
    put("\n");
}
