#include "tests/support/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char room[DIRECTORY_BYTES];

/* --- directories -------------------------------------------------------------------------- */

enum { MOST_DIRECTORIES = 32 };

static char  made[MOST_DIRECTORIES][DIRECTORY_BYTES];       /* "": none */
static pid_t owner;

/* No teardown follows a setup that failed.  A child has nothing to remove. */
static void remove_all(void)
{
    for (int i = 0; i < MOST_DIRECTORIES && getpid() == owner; i++)
        if (*made[i]) remove_directory(made[i]);
}

int make_directory(char path[DIRECTORY_BYTES])
{
    int         at   = 0;
    const char *base = getenv("TMPDIR");
    while (at < MOST_DIRECTORIES && *made[at]) at++;
    if (at == MOST_DIRECTORIES || (!owner && atexit(remove_all))) return -1;
    owner = getpid();
    if (!base || !*base || strlen(base) + sizeof "/qg_test_XXXXXX" > DIRECTORY_BYTES) base = "/tmp";
    snprintf(path, DIRECTORY_BYTES, "%s/qg_test_XXXXXX", base);
    if (!mkdtemp(path)) return -1;
    strcpy(made[at], path);
    return 0;
}

int remove_directory(const char *path)
{
    char      command[2 * DIRECTORY_BYTES + 64];
    const int n = DIRECTORY_BYTES - 1;
    snprintf(command, sizeof command, "chmod -R u+rwx '%.*s' && rm -rf '%.*s'", n, path, n, path);
    for (int i = 0; i < MOST_DIRECTORIES; i++)
        if (!strcmp(made[i], path)) *made[i] = '\0';
    return system(command);
}

/* --- a room, or one file ------------------------------------------------------------------ */

int room_enter(void **state)
{
    return make_directory(room);
}

int room_leave(void **state)
{
    return remove_directory(room);
}

const char *in_room(const char *name)
{
    static char path[ROOM_BYTES];
    snprintf(path, sizeof path, "%s/%s", room, name);
    return path;
}

void write_in_room(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(in_room(name), "wb");
    if (f && fwrite(bytes, 1, n, f) == n && !fclose(f)) return;
    fprintf(stderr, "'%s' cannot be written\n", in_room(name));
    exit(1);
}

void write_text(const char *name, const char *text) { write_in_room(name, text, strlen(text)); }

const char *scratch_file(void)
{
    static char dir[DIRECTORY_BYTES], path[ROOM_BYTES];
    if (!*dir && make_directory(dir)) return NULL;
    snprintf(path, sizeof path, "%s/file", dir);
    remove(path);
    return path;
}
