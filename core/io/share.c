#include "core/io/share.h"

#include <stdlib.h>
#include <string.h>

#ifndef QGRAD_PREFIX
#define QGRAD_PREFIX "/usr/local"
#endif

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
