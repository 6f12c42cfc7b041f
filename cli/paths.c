#include "cli/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/io/file.h"

qg_status path_join(const char *dir, const char *name, char path[PATH_BYTES])
{
    if (!*dir) return qg_fail(QG_EARG, "the path of a directory is empty");
    if (snprintf(path, PATH_BYTES, "%s/%s", dir, name) >= PATH_BYTES)
        return qg_fail(QG_EARG, "%.64s..: the path is longer than %d bytes", dir, PATH_BYTES - 1);
    return QG_OK;
}

bool path_exists(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0;
}

void path_print(const char *path, FILE *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+=,:@%";
    if (*path && !path[strspn(path, plain)]) {
        fputs(path, out);
        return;
    }
    fputc('\'', out);
    for (; *path; path++) fputs(*path == '\'' ? "'\\''" : (char[]){ *path, '\0' }, out);
    fputc('\'', out);
}

qg_status path_make(const char *dir, bool *created)
{
    char   path[PATH_BYTES];
    size_t n = strlen(dir);
    if (n == 0 || n >= PATH_BYTES)
        return qg_fail(QG_EARG, "the name of a directory has %zu bytes", n);
    memcpy(path, dir, n + 1);
    for (char *c = path + 1;; c++) {
        if (*c && *c != '/') continue;
        const char end = *c;
        *c             = '\0';
        *created       = mkdir(path, 0777) == 0;
        if (!*created && errno != EEXIST)
            return qg_fail(QG_EIO, "cannot make directory %s: %s", path, strerror(errno));
        if (!end) return QG_OK;
        *c = end;
    }
}

qg_status text_read(const char *path, size_t limit, char **text, size_t *n)
{
    unsigned char  *bytes;
    const qg_status status = qg_file_read(path, limit, &bytes, n);
    *text                  = NULL;
    if (status) return status;
    *text = malloc(*n + 1);
    if (*text) {
        memcpy(*text, bytes, *n);
        (*text)[*n] = '\0';
    }
    free(bytes);
    return *text ? QG_OK : qg_fail(QG_EMEM, "%s: out of memory", path);
}
