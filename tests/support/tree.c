#include "tests/support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/program.h"

#define KEPT "kept-tree"

/* The images, and what the program printed last, are not of the tree. */
#define ITS_OWN "find . -mindepth 1 -maxdepth 1 ! -name set ! -name out ! -name err ! -name background ! -name " KEPT

void write_recipe(const char *name, const char *more)
{
    char path[300], body[1500];
    snprintf(path, sizeof path, "%s/examples/recipes/%s.toml", root, name);
    const int n = snprintf(body, sizeof body,
                           "model = \"" SMALL_NET(10) "\"\ndata = \"mnist\"\ndata-dir = \"%s/set\"\nweight = \"twn\"\n"
                           "batch = 24\nepochs = 2\nseed = 3\nthreads = 1\n%s", root, more);
    write_bytes(path, body, (size_t)n);
}

int set_up_tree(void **state)
{
    static char absolute[4096];
    char        here[2048];
    if (set_up(state) || !getcwd(here, sizeof here) || chdir(root)) return -1;
    snprintf(absolute, sizeof absolute, "%s%s%s", *program == '/' ? "" : here, *program == '/' ? "" : "/", program);
    program = absolute;
    if (mkdir("examples", 0700) || mkdir("examples/recipes", 0700)) return -1;
    write_recipe("plain", "");
    write_recipe("twn", "reproduces = \"A paper\"\nreported = \"99.35\"\nprovenance = \"replication\"\n"
                        "deviations = \"the images are noise\"\n");
    return 0;
}

void keep_tree(void)
{
    run_shell("mkdir " KEPT " && " ITS_OWN " -exec cp -a {} " KEPT " ';'");
}

int restore_tree(void **state)
{
    return chdir(root) || system(ITS_OWN " -exec rm -rf {} + && cp -a " KEPT "/. .") ? -1 : 0;
}

void edit(const char *path, const char *from, const char *to)
{
    static char all[TEXT_BYTES], out[TEXT_BYTES];
    slurp(path, all, sizeof all);
    char *at_text = strstr(all, from);
    if (!at_text) fail_msg("%s: no '%s' in '%s'", path, from, all);
    *at_text    = '\0';
    const int n = snprintf(out, sizeof out, "%s%s%s", all, to, at_text + strlen(from));
    write_bytes(path, out, (size_t)n);
}

void edit_result(const char *path, const char *from, const char *to)
{
    static char all[TEXT_BYTES];
    slurp(path, all, sizeof all);
    char *checksum = strstr(all, ",\"checksum\":");
    if (checksum) strcpy(checksum, "}\n"), write_bytes(path, all, strlen(all));
    edit(path, from, to);
}

void assert_holds(const char *path, const char *part)
{
    static char all[TEXT_BYTES];
    slurp(path, all, sizeof all);
    if (!strstr(all, part)) fail_msg("%s: no '%s' in '%s'", path, part, all);
}

cJSON *parse_file(const char *path)
{
    slurp(path, last.out, sizeof last.out);
    return parse();
}

void copy(const char *from, const char *to)
{
    run_shell("rm -rf %s && cp -r %s %s", to, from, to);
}
