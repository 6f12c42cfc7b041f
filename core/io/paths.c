#include "core/io/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Set by the Makefile. */
#ifndef QGRAD_PREFIX
#define QGRAD_PREFIX "/usr/local"
#endif

qg_status qg__path_join(const char *dir, const char *name, char path[QG__PATH_BYTES])
{
    if (!dir || !*dir) return qg_fail(QG_EARG, "the path of a directory is empty");
    const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";
    if (snprintf(path, QG__PATH_BYTES, "%s%s%s", dir, slash, name) >= QG__PATH_BYTES)
        return qg_fail(QG_EARG, "%.64s..: the path is longer than %d bytes", dir, QG__PATH_BYTES - 1);
    return QG_OK;
}

static int is_shown(const struct dirent *e) { return *e->d_name != '.'; }

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

int qg__names(const char *dir, struct dirent ***name)
{
    *name = NULL;
    return scandir(dir, name, is_shown, by_name);
}

void qg__names_free(struct dirent **name, int n)
{
    for (int i = 0; i < n; i++) free(name[i]);
    if (n >= 0) free(name);
}

int qg__names_compare(const char *a, size_t n, const char *b, size_t m)
{
    static const char digits[] = "0123456789";
    size_t            i = 0, k = 0;
    while (i < n && k < m) {
        const size_t p = strspn(a + i, digits), q = strspn(b + k, digits);
        if (p && q) {
            const size_t x = strspn(a + i, "0"), y = strspn(b + k, "0"), here = p - x, there = q - y;
            const int    order = here != there ? (here > there ? 1 : -1) : memcmp(a + i + x, b + k + y, here);
            if (order) return order;
            i += p, k += q;
        } else if (a[i] == b[k]) {
            i++, k++;
        } else {
            return (unsigned char)a[i] - (unsigned char)b[k];
        }
    }
    return (i < n) - (k < m);
}

bool qg__path_exists(const char *path)
{
    bool exists;
    return qg__file_exists_in(QG_BY_PATH, path, &exists) || exists;
}

bool qg__path_is_directory(const char *path)
{
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

size_t qg__path_length(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return n;
}

/* Makes one directory. */
static qg_status make_one(const char *path, size_t *made)
{
    if (mkdir(path, 0777)) {
        const int why = errno != EEXIST ? errno : qg__path_is_directory(path) ? 0 : ENOTDIR;
        return why ? qg_fail(QG_EIO, "cannot make directory %s: %s", path, strerror(why)) : QG_OK;
    }
    if (!*made) *made = strlen(path);
    if (faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS))
        return qg_fail(QG_EIO, "cannot use directory %s, which was just made: %s; check the umask", path,
                       strerror(errno));
    return qg__file_flush_name_in(QG_BY_PATH, path);
}

void qg__path_unmake(int base, const char *dir, size_t made)
{
    char path[QG__PATH_BYTES];
    snprintf(path, sizeof path, "%s", dir);
    while (made && strlen(path) >= made && (!unlinkat(base, path, AT_REMOVEDIR) || errno == ENOENT) && strchr(path, '/'))
        *strrchr(path, '/') = '\0';
}

qg_status qg__path_make(const char *dir, size_t *made)
{
    char      path[QG__PATH_BYTES];
    size_t    n = strlen(dir), first = 0;
    qg_status status = QG_OK;
    if (made) *made = 0;
    if (n == 0 || n >= QG__PATH_BYTES)
        return qg_fail(QG_EARG, "the name of a directory has %zu bytes", n);
    memcpy(path, dir, n + 1);
    for (char *c = path + 1, end = '/'; end && !status; c++) {
        if (*c && *c != '/') continue;
        end    = *c;
        *c     = '\0';
        status = make_one(path, &first);
        if (end && !status) *c = end;
    }
    if (status) qg__path_unmake(AT_FDCWD, path, first);
    else if (made) *made = first;
    return status;
}

/* The lock without waiting.  Who only asks whether there is one (qg__path_locked) shares it for a moment, so while it can
 * be shared no process has it.  Two that want it may meet here; then neither shares it for ever. */
static int lock_now(int fd)
{
    enum { TRIALS = 1000 };
    int status = flock(fd, LOCK_EX | LOCK_NB);
    for (int i = 0; status && errno == EWOULDBLOCK && i < TRIALS && flock(fd, LOCK_SH | LOCK_NB) == 0; i++) {
        flock(fd, LOCK_UN);
        sched_yield();
        status = flock(fd, LOCK_EX | LOCK_NB);
    }
    return status;
}

bool qg__path_locked(const char *dir)
{
    const int  fd     = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

qg_status qg__path_lock(int fd, const char *dir, bool wait, char unlocked[QG__UNLOCKED_BYTES])
{
    *unlocked = '\0';
    if ((wait ? flock(fd, LOCK_EX) : lock_now(fd)) == 0) return QG_OK;
    const int why = errno;
    if (why == EWOULDBLOCK) return qg_fail(QG_ESTATE, "%s is locked by another process", dir);
    /* Some network file systems have no locks, and say so in one of these ways. */
    if (why != ENOLCK && why != ENOSYS && why != EOPNOTSUPP) return qg_fail(QG_EIO, "cannot lock %s: %s", dir, strerror(why));
    snprintf(unlocked, QG__UNLOCKED_BYTES, "cannot lock %s: %s; no other process may write to it meanwhile", dir,
             strerror(why));
    return QG_OK;
}

qg_status qg__text_read(int dir, const char *path, size_t limit, char **text, size_t *n)
{
    unsigned char  *bytes;
    const qg_status status = qg__file_read_in(dir, path, limit, &bytes, n);
    *text                  = NULL;
    if (status) return status;
    /* Some editors begin a file of UTF-8 with U+FEFF, which is no part of its text. */
    const size_t mark = *n >= 3 && !memcmp(bytes, "\xEF\xBB\xBF", 3) ? 3 : 0;
    *n -= mark;
    *text = malloc(*n + 1);
    if (*text) {
        memcpy(*text, bytes + mark, *n);
        (*text)[*n] = '\0';
    }
    free(bytes);
    return *text ? QG_OK : qg_fail(QG_EMEM, "%s: out of memory", path);
}

/* Not with open_memstream: without memory, glibc's drops a part of the text and reports no error. */
qg_status qg__text_print(qg_status (*print)(const void *what, FILE *out), const void *what, char **text, size_t *n)
{
    *text = NULL;
    for (size_t room = 1 << 13;; room *= 2) {
        char *to  = malloc(room);
        FILE *out = to ? fmemopen(to, room, "w") : NULL;
        if (!out) {
            free(to);
            return qg_fail(QG_EMEM, "out of memory: a text of %zu bytes", room);
        }
        const qg_status status = print(what, out);
        const bool      whole  = !fflush(out) && !ferror(out);
        *n = (size_t)ftell(out);
        fclose(out);
        if (!status && whole && *n < room) {
            to[*n] = '\0';
            *text  = to;
            return QG_OK;
        }
        free(to);
        if (status) return status;
    }
}

void qg__list_append(char *text, size_t bytes, const char *word)
{
    static const char more[] = ", ..";
    const size_t      used = strlen(text), wanted = strlen(word) + (used ? 2 : 0);
    if (used >= sizeof more && !strcmp(text + used + 1 - sizeof more, more)) return;
    if (used + wanted + sizeof more <= bytes) sprintf(text + used, "%s%s", used ? ", " : "", word);
    else if (used + sizeof more <= bytes) strcpy(text + used, more);
}

/* As typed, '_' or '-' and capitals or not. */
static int plain(char c) { return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

static bool is_one_of(const char *text, size_t n, const char *a, const char *b)
{
    return (n == strlen(a) && !memcmp(text, a, n)) || (n == strlen(b) && !memcmp(text, b, n));
}

/* "cos" and "cosine", "xnornet" and "xnor". */
static bool begins(const char *a, size_t m, const char *b, size_t n)
{
    size_t i = 0;
    while (i < m && i < n && plain(a[i]) == plain(b[i])) i++;
    return i >= 3 && (i == m || i == n);
}

/* The dashes before an option, which are no letters of its name. */
static size_t dashes(const char *word, size_t n)
{
    const size_t found = strspn(word, "-");
    return found < n ? found : 0;
}

/* How many letters are inserted, left out, changed or exchanged with the next; words of at most 31. */
static size_t distance(const char *a, size_t m, const char *b, size_t n)
{
    enum { MOST = 32 };
    size_t d[MOST][MOST];
    if (m >= MOST || n >= MOST) return MOST;
    for (size_t i = 0; i <= m; i++)
        for (size_t k = 0; k <= n; k++) {
            if (!i || !k) {
                d[i][k] = i + k;
                continue;
            }
            const bool   same = plain(a[i - 1]) == plain(b[k - 1]);
            const size_t drop = (d[i - 1][k] < d[i][k - 1] ? d[i - 1][k] : d[i][k - 1]) + 1, change = d[i - 1][k - 1] + !same;
            d[i][k] = drop < change ? drop : change;
            if (i > 1 && k > 1 && plain(a[i - 1]) == plain(b[k - 2]) && plain(a[i - 2]) == plain(b[k - 1]) &&
                d[i - 2][k - 2] + 1 < d[i][k])
                d[i][k] = d[i - 2][k - 2] + 1;
        }
    return d[m][n];
}

const char *qg__list_nearest(const char *list, const char *text, size_t n, char hint[QG__NEAREST_BYTES])
{
    const char  *word = is_one_of(text, n, "true", "on") ? "yes" : is_one_of(text, n, "false", "off") ? "no" : NULL;
    const size_t start = dashes(text, n);
    text += start, n -= start;
    const size_t beyond = n < 3 ? 1 : n < 6 ? 2 : 3;           /* the least distance that is not near */
    size_t       best   = beyond;
    *hint             = '\0';
    for (const char *at = list + strspn(list, ", |"); *at; at += strspn(at, ", |")) {
        const size_t length = strcspn(at, ", |"), skip = dashes(at, length);
        const char  *bare   = at + skip;
        const bool   same   = word && is_one_of(at, length, word, word);
        size_t       far    = same ? 0 : distance(text, n, bare, length - skip);
        if (far >= beyond && begins(text, n, bare, length - skip)) far = beyond - 1;
        if (far < best && length < 64) {
            best = far;
            snprintf(hint, QG__NEAREST_BYTES, "; did you mean %.*s?", (int)length, at);
        }
        at += length;
    }
    return hint;
}

bool qg__list_next(const char **at, char *word, size_t bytes)
{
    if (!*at) return false;
    const size_t n = strcspn(*at, ",");
    snprintf(word, bytes, "%.*s", n < bytes ? (int)n : (int)bytes, *at);
    *at = (*at)[n] ? *at + n + 1 : NULL;
    return true;
}

const char *qg__lines_next(const char *line)
{
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

char *qg__lines_with(const char *old, const char *item)
{
    const size_t key  = strcspn(item, "=") + 1;
    char        *list = malloc((old ? strlen(old) + 1 : 0) + strlen(item) + 1);
    char        *to   = list;
    for (const char *line = old; list && line && *line; line = qg__lines_next(line)) {
        const size_t n = strcspn(line, "\n");
        if (n >= key && !memcmp(line, item, key)) continue;
        memcpy(to, line, n);
        to[n] = '\n';
        to += n + 1;
    }
    if (list) strcpy(to, item);
    return list;
}

/* --- files that come with qgrad ----------------------------------------------------------- */

bool qg__share_directory(char path[QG__PATH_BYTES])
{
    const char *given = getenv("QGRAD_SHARE");
    const char *share = given && *given ? given : QGRAD_PREFIX "/share/qgrad";
    return snprintf(path, QG__PATH_BYTES, "%s", share) < QG__PATH_BYTES;
}

void qg__share_find(const char *given, char found[QG__PATH_BYTES])
{
    char      dir[QG__PATH_BYTES], path[QG__PATH_BYTES];
    const bool here = *given == '/' || qg__path_exists(given);
    if (here || !qg__share_directory(dir) || qg__path_join(dir, given, path) || !qg__path_exists(path))
        snprintf(path, sizeof path, "%s", given);
    strcpy(found, path);
}
