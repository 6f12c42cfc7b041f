#include "cli/config/share.h"

#include <stdlib.h>
#include <string.h>

#include "cli/config/self.h"

#ifndef QGRAD_PREFIX
#define QGRAD_PREFIX "/usr/local"
#endif

bool share_directory(char path[QG__PATH_BYTES])
{
    static const char below[] = "share/qgrad";
    const char       *given   = getenv("QGRAD_SHARE");
    if (given && *given) return snprintf(path, QG__PATH_BYTES, "%s", given) < QG__PATH_BYTES;
    char *bin = NULL;
    if (self_path(path) && (bin = strrchr(path, '/')) != NULL) {
        *bin = '\0';                            /* the directory of the program */
        bin  = strrchr(path, '/');
    }
    if (bin) *bin = '\0';
    else strcpy(path, QGRAD_PREFIX);
    const size_t n = strlen(path);
    return snprintf(path + n, QG__PATH_BYTES - n, "/%s", below) < (int)(QG__PATH_BYTES - n);
}

void share_find(const char *given, char found[QG__PATH_BYTES])
{
    char      dir[QG__PATH_BYTES], path[QG__PATH_BYTES];
    const bool here = *given == '/' || qg__path_exists(given);
    if (here || !share_directory(dir) || qg__path_join(dir, given, path) || !qg__path_exists(path))
        snprintf(path, sizeof path, "%s", given);
    strcpy(found, path);
}
