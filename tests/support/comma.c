#include "tests/support/comma.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LC_NUMERIC alone, which needs no package of locales; localedef warns that the rest is missing. */
static const char SOURCE[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3\nEND LC_NUMERIC\n";

static bool use(const char *name)
{
    return setlocale(LC_NUMERIC, name) && !strcmp(localeconv()->decimal_point, ",");
}

static bool make(void)
{
    char  dir[] = "/tmp/qg_locale_XXXXXX", path[64], command[256];
    if (!mkdtemp(dir)) return false;
    snprintf(path, sizeof path, "%s/source", dir);
    FILE *f = fopen(path, "w");
    if (f) {
        fputs(SOURCE, f);
        fclose(f);
    }
    snprintf(command, sizeof command, "localedef -c -i %s %s/xx_XX >/dev/null 2>&1", path, dir);
    bool made = f && system(command) >= 0;      /* its status is that of a warning */
    setenv("LOCPATH", dir, 1);
    made = made && use("xx_XX");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return !system(command) && made;
}

bool comma_begin(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (use(names[i])) return true;
    return make();
}

void comma_end(void) { setlocale(LC_NUMERIC, "C"); }
