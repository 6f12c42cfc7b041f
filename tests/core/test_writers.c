/* Several processes, with several threads each, save to one path, and readers find whole files only.
 *
 *     test_writers [READS]
 */
#include "tests/support/testing.h"

#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io/state.h"
#include "tests/support/room.h"

enum { PROCESSES = 3, THREADS = 2, VALUES = 20011 };    /* several times what a file buffers */

static int  reads = 300;
static char path[ROOM_BYTES], go[ROOM_BYTES];           /* writers go on while the second exists */

/* Linked with -Wl,--wrap: the disk, which would make writers much slower than readers, is not asked. */
int __wrap_fsync(int fd);

int __wrap_fsync(int fd) { return 0; }

/* A file whose parts say who wrote it. */
static void *save_until_told(void *id)
{
    float    *v = malloc(VALUES * sizeof *v);
    char      name[16];
    qg_state *s      = qg_state_new();
    qg_status status = v && s ? QG_OK : QG_EMEM;
    snprintf(name, sizeof name, "%d", *(int *)id);
    for (int i = 0; v && i < VALUES; i++) v[i] = (float)*(int *)id;
    qg_state_add(s, "v", (qg_array){ QG_F32, 1, { VALUES }, v });
    qg_state_set_note(s, "who", name);
    while (!status) {
        v[0]++;
        status = qg_state_save(s, path);
        if (access(go, F_OK)) break;
    }
    if (status) fprintf(stderr, "writer %s: %s\n", name, qg_errmsg());
    qg_state_free(s);
    free(v);
    return status ? id : NULL;
}

/* The number of threads that failed. */
static int be_writers(int process)
{
    pthread_t thread[THREADS];
    int       id[THREADS], failed = 0;
    for (int i = 0; i < THREADS; i++) {
        id[i] = 1 + process * THREADS + i;
        if (pthread_create(&thread[i], NULL, save_until_told, &id[i])) return -1;
    }
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        failed += pthread_join(thread[i], &bad) || bad;
    }
    return failed;
}

/* The file that was read: who wrote it, and how many before; who is 0 if it is not that of one writer. */
typedef struct seen {
    int   who;
    float count;
} seen;

static seen read_one(void)
{
    qg_archive *a = qg_archive_open(path);
    if (!a) return fprintf(stderr, "%s\n", qg_errmsg()), (seen){ 0 };
    const float *v    = qg_archive_find(a, "v")->array.data;
    const int    who  = atoi(qg_archive_noted(a, "who"));
    bool         same = true;
    for (int i = 1; i < VALUES; i++) same = same && v[i] == (float)who;
    const seen found = { same ? who : 0, v[0] };
    qg_archive_free(a);
    return found;
}

static int enter(void **state)
{
    if (room_enter(state)) return -1;
    snprintf(path, sizeof path, "%s", in_room("a.safetensors"));
    snprintf(go, sizeof go, "%s", in_room("go"));
    return 0;
}

static void no_reader_sees_a_part(void **state)
{
    pid_t  process[PROCESSES];
    seen   last = { 0 };
    int    torn = 0, differ = 0, failed = 0;
    glob_t left;
    save_until_told(&(int){ 1 });
    write_text("go", "");
    for (int i = 0; i < PROCESSES; i++)
        if ((process[i] = fork()) == 0) _exit(be_writers(i));
    for (int i = 0; i < reads; i++) {
        const seen now = read_one();
        torn += !now.who;
        differ += now.who != last.who || now.count != last.count;
        last = now;
        sched_yield();
    }
    unlink(go);
    for (int i = 0, status; i < PROCESSES; i++) failed += waitpid(process[i], &status, 0) != process[i] || status;
    print_message("%d reads, %d of another file than the one before, %d torn\n", reads, differ, torn);
    assert_int_equal(torn, 0);
    assert_int_equal(failed, 0);
    assert_true(read_one().who > 0);
    assert_int_equal(glob(in_room("*tmp"), 0, NULL, &left), GLOB_NOMATCH);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(no_reader_sees_a_part, enter, room_leave) };
    if (argc > 1) reads = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
