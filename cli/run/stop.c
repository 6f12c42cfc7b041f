#include "cli/run/stop.h"

#include <stddef.h>

/* A person sends the first two, and may insist. */
static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR2, SIGUSR1 };

enum { INSISTENT = 2, SIGNALS = sizeof signals / sizeof *signals };

volatile sig_atomic_t stop_signal;

static void on_signal(int number) { stop_signal = number; }

static bool is_ignored(int number)
{
    struct sigaction now;
    return !sigaction(number, NULL, &now) && now.sa_handler == SIG_IGN;
}

void stop_begin(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++) {
        action.sa_flags = i < INSISTENT ? (int)SA_RESETHAND : 0;
        if (!is_ignored(signals[i])) sigaction(signals[i], &action, NULL);
    }
}

void stop_add(sigset_t *set)
{
    for (int i = 0; i < SIGNALS; i++)
        if (!is_ignored(signals[i])) sigaddset(set, signals[i]);
}

int stop_request(void)
{
    for (int i = SIGNALS - 1; i >= INSISTENT; i--)
        if (!is_ignored(signals[i])) return signals[i];
    return SIGTERM;
}

bool stop_was(int code)
{
    for (int i = 0; i < SIGNALS; i++)
        if (code == 128 + signals[i]) return true;
    return false;
}
