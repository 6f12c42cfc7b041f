#include "tests/support/inside.h"

#include "tests/support/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/config/options.h"
#include "tests/support/clock.h"
#include "tests/support/program.h"
#include "tools/bench/bench.h"

enum { MOST_RESUMES = 200 };

/* What the clock of the next child is to do. */
static int  its_signal;
static long its_reading, its_turn;

static int run_verb(int argc, char **argv)
{
    clock_ticks = true;
    clock_raises(its_signal, its_reading);
    clock_turns_back(its_turn);
    if (argc > 1 && !strcmp(argv[1], "bench")) return bench_main(argc - 1, argv + 1);
    return argc > 1 && !strcmp(argv[1], "train") ? verb_run(&train_verb, "qgrad", argc - 1, argv + 1) : EXIT_USAGE;
}

int qgrad_signalled(const char *line, int signal, long reading)
{
    its_signal  = signal;
    its_reading = reading;
    inside      = run_verb;
    return qgrad(line);
}

int qgrad_inside(const char *line) { return qgrad_signalled(line, 0, 0); }

int qgrad_turned_back(const char *line, long n)
{
    its_turn         = n;
    const int status = qgrad_inside(line);
    its_turn         = 0;
    return status;
}

static pid_t start_signalled(const char *line, int signal, long reading)
{
    its_signal  = signal;
    its_reading = reading;
    inside      = run_verb;
    return start(line);
}

pid_t start_inside(const char *line) { return start_signalled(line, 0, 0); }

pid_t start_until(const char *line, long reading)
{
    int         status = 0;
    const pid_t pid    = start_signalled(line, SIGSTOP, reading);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    return pid;
}

void finish_in_sittings(const char *name, int readings)
{
    int within = 0;
    for (int resumes = 0, complete = 0; !complete; resumes++) {
        char line[256];
        int  epoch, batch = 0;
        assert_true(resumes < MOST_RESUMES);          /* each of them gets somewhere */
        snprintf(line, sizeof line, "train --resume --json --out @/%s --budget %d", name, readings);
        if (qgrad_inside(line) % 3) fail_msg("qgrad %s: status %d: %s", line, last.status, last.err);
        cJSON *j = parse();
        complete = truth(j, "complete");
        assert_string_equal(text(j, "ended"), complete ? "complete" : "budget");
        assert_int_equal(last.status, complete ? 0 : 3);
        cJSON_Delete(j);
        const char *stopped = strstr(last.err, "stopped in epoch ");
        assert_int_equal(!stopped, complete);
        if (stopped) assert_int_equal(sscanf(stopped, "stopped in epoch %d after step %d", &epoch, &batch), 2);
        within += batch > 0;
    }
    assert_true(within > 1);
}
