#include "tests/support/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cblas.h>
#include <cmocka.h>

#include "core/rng.h"

char        root[DIRECTORY_BYTES];
const char *program;
outcome     last;
int (*inside)(int argc, char **argv);

/* --- processes ---------------------------------------------------------------------------- */

const char *at(const char *name)
{
    static char path[4][256];
    static int  turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", root, name);
    return path[turn];
}

size_t slurp(const char *path, char *text, size_t bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s: %s", path, strerror(errno));
    const size_t n = fread(text, 1, bytes - 1, f);
    fclose(f);
    text[n] = '\0';
    return n;
}

/* @ stands for the test's directory. */
static void expand(const char *line, char *to, size_t bytes)
{
    const char *end = to + bytes - sizeof root;
    for (; *line && to < end; line++) {
        if (*line == '@') to += sprintf(to, "%s", root);
        else *to++ = *line;
    }
    assert_true(!*line);
    *to = '\0';
}

/* Words of a command line, separated by single spaces; '' is an empty one. */
static int split(char *text, char *argv[MAX_ARGS + 1])
{
    int n     = 0;
    argv[n++] = (char *)(uintptr_t)program;
    for (char *word = strtok(text, " "); word && n < MAX_ARGS; word = strtok(NULL, " "))
        argv[n++] = strcmp(word, "''") ? word : word + 2;
    argv[n] = NULL;
    return n;
}

static int new_file(const char *path) { return open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600); }

/* Before the tests: a shell that starts the suite in the background, or nohup, ignores some signals for all that it starts. */
__attribute__((constructor)) static void obey_signals(void)
{
    signal(SIGINT, SIG_DFL), signal(SIGHUP, SIG_DFL), signal(SIGTERM, SIG_DFL);
}

static pid_t spawn(const char *line, int out, int err)
{
    char text[2048], *argv[MAX_ARGS + 1];
    int (*const in_its_place)(int, char **) = inside;
    inside                                  = NULL;
    expand(line, text, sizeof text);
    const int n = split(text, argv);
    fflush(NULL);           /* a child that is no program would print it again */
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        alarm(600);         /* it hangs: none takes a tenth of it, even with sanitizers */
        if (in_its_place) {
            const int status = in_its_place(n, argv);
            fflush(NULL);
            _exit(status);
        }
        execv(program, argv);
        _exit(127);
    }
    close(out), close(err);
    assert_true(pid > 0);
    return pid;
}

/* --- in the background -------------------------------------------------------------------- */

static pid_t background;        /* 0: none */
static int   reports;           /* its stderr, to be read */

/* Adds what one read gives to last.err, of which the end is kept; whether there was more. */
static bool read_report(void)
{
    size_t n = strlen(last.err);
    if (n > TEXT_BYTES / 2) {
        memmove(last.err, last.err + TEXT_BYTES / 2, n - TEXT_BYTES / 2 + 1);
        n -= TEXT_BYTES / 2;
    }
    const ssize_t got = read(reports, last.err + n, TEXT_BYTES - 1 - n);
    last.err[n + (got > 0 ? (size_t)got : 0)] = '\0';
    return got > 0 || (got < 0 && errno == EINTR);
}

pid_t start(const char *line)
{
    int ends[2];
    assert_int_equal(background, 0);
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    reports    = ends[0];
    background = spawn(line, new_file(at("background")), ends[1]);
    return background;
}

pid_t start_endless(const char *line)
{
    const pid_t pid = start(line);
    *last.err       = '\0';
    while (!strstr(last.err, "epoch ") || !strchr(strstr(last.err, "epoch "), '\n'))
        if (!read_report()) fail_msg("qgrad %s ended: %s", line, last.err);
    return pid;
}

int end_background(void **state)
{
    if (!background) return 0;
    kill(background, SIGKILL);
    waitpid(background, NULL, 0);
    close(reports);
    background = 0;
    return 0;
}

int finish(pid_t pid)
{
    int        status;
    const bool behind = pid == background;
    if (behind) *last.err = '\0';
    while (behind && read_report()) continue;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    last.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    slurp(at(behind ? "background" : "out"), last.out, sizeof last.out);
    if (behind) close(reports), background = 0;
    else slurp(at("err"), last.err, sizeof last.err);
    return last.status;
}

void run_shell(const char *fmt, ...)
{
    char    line[600], command[1200];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    assert_true(n > 0 && n < (int)sizeof line);
    expand(line, command, sizeof command);
    assert_int_equal(system(command), 0);
}

int qgrad(const char *line) { return finish(spawn(line, new_file(at("out")), new_file(at("err")))); }

void assert_status(const char *line, int status)
{
    if (qgrad(line) != status)
        fail_msg("qgrad %s: status %d, not %d: %s", line, last.status, status, last.err);
}

/* After the warnings of options that are given twice, as SET and TRAIN make them. */
static const char *after_warnings(const char *err)
{
    while (strncmp(err, "qgrad", 5) == 0 && strchr(err, '\n')) {
        const char *end = strchr(err, '\n'), *twice = strstr(err, " is given twice: ");
        if (!twice || twice > end) break;
        err = end + 1;
    }
    return err;
}

/* It fails with this status, one line on stderr that contains part, and nothing on stdout. */
void assert_refuses(const char *line, int status, const char *part)
{
    assert_status(line, status);
    assert_string_equal(last.out, "");
    const char *err = after_warnings(last.err), *end = strchr(err, '\n');
    if (!end || end[1] || strncmp(err, "qgrad", 5) || !strstr(err, part))
        fail_msg("qgrad %s: '%s' is not one line with '%s'", line, last.err, part);
}

void assert_runs(const char *fmt, ...)
{
    char    line[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    assert_status(line, 0);
}

void assert_stops(const char *fmt, ...)
{
    char    line[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    assert_status(line, 3);
}

void assert_stdout(const char *part)
{
    if (!strstr(last.out, part)) fail_msg("'%s' is not in '%s'", part, last.out);
}

void assert_stderr(const char *part)
{
    if (!strstr(last.err, part)) fail_msg("'%s' is not in '%s'", part, last.err);
}

cJSON *parse(void)
{
    const char *end;
    cJSON      *j = cJSON_ParseWithOpts(last.out, &end, 0);
    if (!j || strcmp(end, "\n")) fail_msg("not one JSON object and a newline: '%s'", last.out);
    return j;
}

double number(const cJSON *j, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(j, key);
    if (!cJSON_IsNumber(item)) fail_msg("%s is not a number in '%s'", key, last.out);
    return item->valuedouble;
}

const char *text(const cJSON *j, const char *key)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, key));
    if (!value) fail_msg("%s is not a string in '%s'", key, last.out);
    return value;
}

bool truth(const cJSON *j, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(j, key);
    if (!cJSON_IsBool(item)) fail_msg("%s is not a boolean in '%s'", key, last.out);
    return cJSON_IsTrue(item);
}

double last_number(const char *key)
{
    cJSON       *j = parse();
    const double n = number(j, key);
    cJSON_Delete(j);
    return n;
}

const char *last_text(const char *key)
{
    static char said[1024];
    cJSON      *j = parse();
    snprintf(said, sizeof said, "%s", text(j, key));
    cJSON_Delete(j);
    return said;
}

bool last_truth(const char *key)
{
    cJSON     *j = parse();
    const bool t = truth(j, key);
    cJSON_Delete(j);
    return t;
}

/* --- files -------------------------------------------------------------------------------- */

void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void assert_same_file(const char *a, const char *b)
{
    static char x[1 << 16], y[sizeof x];
    FILE       *f = fopen(a, "rb"), *g = fopen(b, "rb");
    if (!f || !g) fail_msg("cannot open %s or %s", a, b);
    size_t place = 0, n, m;
    do {
        n = fread(x, 1, sizeof x, f);
        m = fread(y, 1, sizeof y, g);
        if (n != m || memcmp(x, y, n)) {
            for (size_t i = 0; i < n && i < m && x[i] == y[i]; i++) place++;
            fail_msg("%s and %s differ at byte %zu", a, b, place);
        }
        place += n;
    } while (n > 0);
    fclose(f);
    fclose(g);
}

/* metrics.csv without images_per_second and seconds, columns 7 and 8. */
static void metrics_without_times(const char *path, char *text_out)
{
    static char all[TEXT_BYTES];
    slurp(path, all, sizeof all);
    int   column = 1;
    char *to     = text_out;
    for (const char *c = all; *c; c++) {
        if (*c == ',') column++;
        if (*c == '\n') column = 1;
        if (column != 7 && column != 8) *to++ = *c;
    }
    *to = '\0';
}

void assert_same_run(const char *a, const char *b)
{
    static char x[TEXT_BYTES], y[TEXT_BYTES];
    char        p[300], q[300];
    static const char *const files[] = { "last.safetensors", "best.safetensors" };
    for (int i = 0; i < 2; i++) {
        snprintf(p, sizeof p, "%s/%s/%s", root, a, files[i]);
        snprintf(q, sizeof q, "%s/%s/%s", root, b, files[i]);
        assert_same_file(p, q);
    }
    snprintf(p, sizeof p, "%s/%s/metrics.csv", root, a);
    snprintf(q, sizeof q, "%s/%s/metrics.csv", root, b);
    metrics_without_times(p, x);
    metrics_without_times(q, y);
    assert_string_equal(x, y);
}

static void big_endian(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* n images whose brightest column tells the class. */
static void write_set(const char *split, uint32_t n, uint64_t key)
{
    static uint8_t images[16 + N_TRAIN * SIDE * SIDE], labels[8 + N_TRAIN];
    char           name[64];
    big_endian(images, 0x803), big_endian(images + 4, n);
    big_endian(images + 8, SIDE), big_endian(images + 12, SIDE);
    big_endian(labels, 0x801), big_endian(labels + 4, n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t label = (uint32_t)(qg_bits(key, i) % 10);
        labels[8 + i]        = (uint8_t)label;
        for (uint32_t p = 0; p < SIDE * SIDE; p++) {
            const uint64_t noise               = qg_bits(key + 1, i * SIDE * SIDE + p) % 160;
            images[16 + i * SIDE * SIDE + p] = (uint8_t)(noise + (p % SIDE == label + 3 ? 95 : 0));
        }
    }
    snprintf(name, sizeof name, "set/%s-images-idx3-ubyte", split);
    write_bytes(at(name), images, 16 + n * SIDE * SIDE);
    snprintf(name, sizeof name, "set/%s-labels-idx1-ubyte", split);
    write_bytes(at(name), labels, 8 + n);
}

int set_up(void **state)
{
    program = getenv("QGRAD") ? getenv("QGRAD") : "build/qgrad";
    /* Without it the program would start twice (cli/main.c), and in a child that is the program, OpenBLAS would start
     * threads, which wait for work in a loop. */
    if (setenv("OPENBLAS_NUM_THREADS", "1", 1)) return -1;
    openblas_set_num_threads(1);
    if (make_directory(root) || mkdir(at("set"), 0700)) return -1;
    write_set("train", N_TRAIN, 1);
    write_set("t10k", N_TEST, 7);
    return access(program, X_OK);
}

int tear_down(void **state)
{
    return end_background(state) || remove_directory(root);
}
