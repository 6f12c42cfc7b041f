/* A net in C (NET, a file name) as WebAssembly, for page.html.  It imports one function, which sees
 * the result of each step. */
#include <stddef.h>
#include <stdint.h>

#define IMPORT(name) __attribute__((import_module("page"), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name), used))

IMPORT("step")
void page_step(const char *name, const void *values, int bytes, int lowest, int h, int w, int c);
#define NET_TRACE(name, values, bytes, lowest, h, w, c) page_step(name, values, bytes, lowest, h, w, c)
#define NET_NAMES
#include NET

static uint8_t image[NET_HEIGHT * NET_WIDTH * NET_CHANNELS];
static float   scores[NET_SCORES];

/* The compiler may call these. */
void *memset(void *to, int c, size_t n)
{
    for (size_t i = 0; i < n; i++) ((volatile uint8_t *)to)[i] = (uint8_t)c;
    return to;
}
void *memcpy(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++) ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}

EXPORT("height")   int height(void)   { return NET_HEIGHT; }
EXPORT("width")    int width(void)    { return NET_WIDTH; }
EXPORT("channels") int channels(void) { return NET_CHANNELS; }
EXPORT("count")    int count(void)    { return NET_SCORES; }
EXPORT("image")    uint8_t *image_at(void)  { return image; }
EXPORT("scores")   float   *scores_at(void) { return scores; }
EXPORT("name")     const char *name(int i)  { return net_names[i]; }
EXPORT("predict")  int predict(void)        { return net_predict(image, scores); }
