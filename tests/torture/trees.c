#define _GNU_SOURCE
#include "tests/torture/trees.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("torture: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

void path_put(char to[PATH_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(to, PATH_MAX, format, args);
    va_end(args);
    if (n >= PATH_MAX) die("%.64s..: the path is too long", to);
}

/* --- files -------------------------------------------------------------------------------- */

char *file_read(const char *path, size_t *n)
{
    struct stat s;
    const int   fd   = open(path, O_RDONLY | O_CLOEXEC);
    char       *text = fd >= 0 && !fstat(fd, &s) ? malloc((size_t)s.st_size + 1) : NULL;
    size_t      got  = 0;
    for (ssize_t r; text && (r = read(fd, text + got, (size_t)s.st_size - got)) > 0;) got += (size_t)r;
    if (text) text[got] = '\0';
    if (fd >= 0) close(fd);
    *n = got;
    return text;
}

void file_write(const char *path, const char *bytes, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || close(fd))
        die("cannot write %s: %s", path, strerror(errno));
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    return remove(path);
}

void tree_remove(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* A page has times, and a run depends neither on it nor on what a killed writer of it leaves. */
static int is_compared(const struct dirent *e)
{
    return strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strncmp(e->d_name, "report.html", 11);
}

static int list(const char *path, struct dirent ***names)
{
    const int n = scandir(path, names, is_compared, alphasort);
    if (n < 0) die("cannot read %s: %s", path, strerror(errno));
    return n;
}

static void free_list(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
}

void tree_copy(const char *from, const char *to)
{
    struct stat     s;
    struct dirent **names;
    char            a[PATH_MAX], b[PATH_MAX];
    if (lstat(from, &s)) die("cannot read %s: %s", from, strerror(errno));
    if (S_ISLNK(s.st_mode)) {
        const ssize_t n = readlink(from, a, sizeof a - 1);
        a[n > 0 ? n : 0] = '\0';
        if (symlink(a, to)) die("cannot make %s: %s", to, strerror(errno));
        return;
    }
    if (S_ISREG(s.st_mode)) {
        size_t n;
        char  *bytes = file_read(from, &n);
        if (!bytes) die("cannot read %s: %s", from, strerror(errno));
        file_write(to, bytes, n);
        free(bytes);
        return;
    }
    if (mkdir(to, 0777)) die("cannot make %s: %s", to, strerror(errno));
    const int n = list(from, &names);
    for (int i = 0; i < n; i++) {
        path_put(a, "%s/%s", from, names[i]->d_name);
        path_put(b, "%s/%s", to, names[i]->d_name);
        tree_copy(a, b);
    }
    free_list(names, n);
}

/* --- comparison --------------------------------------------------------------------------- */

const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether the text of n bytes is one of the words. */
static bool is_one_of(const char *text, size_t n, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == n && !memcmp(*words, text, n)) return true;
    return false;
}

/* Removes the columns that hold times. */
static void drop_columns(char *csv)
{
    static const char *const times[] = { "images_per_second", "seconds", NULL };
    bool                     dropped[64] = { false };
    int                      column = 0, line = 0;
    char                    *to = csv;
    for (const char *at = csv; *at; at++) {
        const size_t n = strcspn(at, ",\n");
        if (line == 0 && column < 64) dropped[column] = is_one_of(at, n, times);
        if (column >= 64 || !dropped[column]) memmove(to, at, n), to += n;
        at += n;
        *to++ = *at;
        if (*at == '\n') line++, column = 0;
        else column++;
        if (!*at) return;
    }
    *to = '\0';
}

/* Removes the values that depend on times or on how the memory was used, and the checksum of all values. */
static void drop_values(char *json)
{
    static const char *const times[] = { "images_per_second", "seconds", "peak_rss_bytes", "checksum", NULL };
    char                    *to = json;
    for (const char *at = json; *at;) {
        const char *end = *at == '"' ? strchr(at + 1, '"') : NULL;
        if (end && end[1] == ':' && is_one_of(at + 1, (size_t)(end - at - 1), times)) {
            at = end + 2;
            at += strcspn(at, ",}");
        } else *to++ = *at++;
    }
    *to = '\0';
}

static bool compare(const char *a, const char *b, bool exactly)
{
    size_t n, m;
    char  *x = file_read(a, &n), *y = file_read(b, &m);
    bool   same = x && y && n == m && !memcmp(x, y, n);
    if (x && y && !same && !exactly && strlen(x) == n && strlen(y) == m) {
        if (!strncmp(x, "epoch,", 6)) drop_columns(x), drop_columns(y), same = !strcmp(x, y);
        if (*x == '{') drop_values(x), drop_values(y), same = !strcmp(x, y);
    }
    free(x), free(y);
    return same;
}

bool file_same(const char *a, const char *b) { return compare(a, b, false); }

bool tree_same(const char *a, const char *b, bool exactly, char what[WHAT])
{
    struct dirent **x, **y;
    bool            same = true;
    const int       n = list(a, &x), m = list(b, &y);
    for (int i = 0, k = 0; same && (i < n || k < m);) {
        const int   order = i == n ? 1 : k == m ? -1 : strcmp(x[i]->d_name, y[k]->d_name);
        const char *name  = order > 0 ? y[k]->d_name : x[i]->d_name;
        char        here[PATH_MAX], there[PATH_MAX];
        struct stat s, t;
        same = order == 0;
        snprintf(what, WHAT, "%.200s %s", name,
                 order < 0   ? "is left behind"
                 : order > 0 ? "is missing"
                             : "differs");
        if (!same) break;
        path_put(here, "%s/%s", a, name);
        path_put(there, "%s/%s", b, name);
        if (lstat(here, &s) || lstat(there, &t) || (s.st_mode & S_IFMT) != (t.st_mode & S_IFMT)) same = false;
        else if (S_ISDIR(s.st_mode)) same = tree_same(here, there, exactly, what);
        else if (S_ISREG(s.st_mode)) same = compare(here, there, exactly);
        i++, k++;
    }
    free_list(x, n), free_list(y, m);
    return same;
}

bool tree_has_more(const char *tree, const char *one, const char *other, char what[WHAT])
{
    struct dirent **names;
    bool            found = false;
    const int       n = list(tree, &names);
    for (int i = 0; i < n && !found; i++) {
        char        here[PATH_MAX], a[PATH_MAX], b[PATH_MAX];
        struct stat s;
        path_put(here, "%s/%s", tree, names[i]->d_name);
        path_put(a, "%s/%s", one, names[i]->d_name);
        path_put(b, "%s/%s", other, names[i]->d_name);
        found = lstat(a, &s) && lstat(b, &s);
        snprintf(what, WHAT, "%.200s", names[i]->d_name);
        if (!found && !lstat(here, &s) && S_ISDIR(s.st_mode)) found = tree_has_more(here, a, b, what);
    }
    free_list(names, n);
    return found;
}

uint64_t tree_steps(const char *tree)
{
    char     path[PATH_MAX];
    size_t   n;
    uint64_t length, from, steps = 0;
    path_put(path, "%s/run/last.safetensors", tree);
    char *bytes = file_read(path, &n);
    if (!bytes || n < 8) return free(bytes), 0;
    memcpy(&length, bytes, 8);
    const char *at = length < n - 8 ? memmem(bytes + 8, length, "\"run.steps\":", 12) : NULL;
    const char *of = at ? memmem(at, (size_t)(bytes + 8 + length - at), "\"data_offsets\":[", 16) : NULL;
    if (of && sscanf(of + 16, "%" SCNu64, &from) == 1 && 8 + length + from + 8 <= n)
        memcpy(&steps, bytes + 8 + length + from, 8);
    free(bytes);
    return steps;
}
