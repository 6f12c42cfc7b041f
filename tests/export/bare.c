/* The lines of lines.h on a Cortex-M, by semihosting, without an operating system or a C library.
 * With QUIET the duration of each image instead, in ticks of the system timer: under `qemu-system-arm
 * -icount shift=0` an instruction takes a nanosecond.  IMAGES is a file of bytes that becomes part of
 * the program, COUNT how many of them are run. */
#include <stddef.h>
#include <stdint.h>

extern uint8_t stack[], data[], data_end[], data_from[], bss[], bss_end[];
void           reset(void);

/* The system timer counts 24 bits down, and then calls this. */
static volatile uint32_t wraps;
static void              wrap(void) { wraps++; }

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    [0] = stack, [1] = (void *)reset, [3] = (void *)reset, [15] = (void *)wrap
};

__asm__(".section .rodata\nimages:\n.incbin \"" IMAGES "\"\n.text\n");
extern const uint8_t images[];

static int semihost(int what, const void *with)
{
    register int         r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = with;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void put(const char *text) { semihost(4, text); }

/* The compiler may call these. */
void *memcpy(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++) ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}
void *memset(void *to, int c, size_t n)
{
    for (size_t i = 0; i < n; i++) ((volatile uint8_t *)to)[i] = (uint8_t)c;
    return to;
}

#ifndef QUIET
#include "lines.h"
#else
#include NET
#endif

#define SYSTICK ((volatile uint32_t *)0xe000e010)

void reset(void)
{
    memcpy(data, data_from, (size_t)(data_end - data));
    memset(bss, 0, (size_t)(bss_end - bss));
#ifdef __ARM_FP
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20;     /* the floating-point unit */
    __asm__ volatile("dsb\nisb");
#endif
    for (int i = 0; i < COUNT; i++) {
        const uint8_t *image = images + 16 + i * (NET_HEIGHT * NET_WIDTH * NET_CHANNELS);
#ifndef QUIET
        put_line(image);
#else
        static float scores[NET_SCORES];
        wraps      = 0;
        SYSTICK[1] = 0xffffff;
        SYSTICK[2] = 0;
        SYSTICK[0] = 7;
        net_predict(image, scores);
        const uint32_t ticks = (wraps << 24) + 0xffffff - SYSTICK[2];
        SYSTICK[0] = 4;
        char           text[10] = { 0 };
        for (int k = 0; k < 8; k++) text[k] = "0123456789abcdef"[ticks >> (28 - 4 * k) & 15];
        text[8] = '\n';
        put(text);
#endif
    }
    static const struct { uint32_t why, code; } done = { 0x20026, 0 };
    semihost(0x18, (const void *)(uintptr_t)done.why);
    for (;;);
}
