#define _XOPEN_SOURCE 700   /* realpath */
#include "cli/config/self.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#endif

/* The sanitizers' libraries may not have begun. */
#define EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

/* The first words of the command line, if they are the loader and its options: each ends with a zero, and the path of this
 * program follows them. */
static struct {
    char *text;
    int   words;            /* 0: this program was started directly */
} loader;

/* The command line of the process; its bytes, -1 on error. */
EARLY
static ssize_t read_command(char **text)
{
    const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t   used = 0, got = -1;
    *text = NULL;
    for (size_t bytes = 4096; file >= 0 && got; bytes *= 2) {
        char *grown = realloc(*text, bytes);
        if (!grown) break;
        *text = grown;
        while ((size_t)used < bytes && (got = read(file, *text + used, bytes - (size_t)used)) > 0) used += got;
    }
    if (file >= 0) close(file);
    return got ? -1 : used;
}

/* Where the kernel started this program it names the base of the loader; a static program has none either, and no more
 * words than argc. */
EARLY
void self_begin(int argc)
{
#if defined(__linux__)
    char *text;
    if (loader.words || getauxval(AT_BASE)) return;
    const ssize_t bytes = read_command(&text);
    int           words = 0;
    for (ssize_t i = 0; i < bytes; i++) words += !text[i];
    if (words > argc) loader.text = text, loader.words = words - argc;
    else free(text);
#else
#endif
}

EARLY
void self_execute(char **argv, char **environment)
{
    char **words = argv, *at = loader.text;
    if (loader.words) {
        int argc = 0;
        while (argv[argc]) argc++;
        words = malloc(((size_t)loader.words + (size_t)argc + 1) * sizeof *words);
        if (!words) return;
        for (int i = 0; i <= loader.words; i++, at += strlen(at) + 1) words[i] = at;
        for (int i = 1; i <= argc; i++) words[loader.words + i] = argv[i];
    }
    execve("/proc/self/exe", words, environment);
    if (words != argv) free(words);
}

bool self_path(char path[QG__PATH_BYTES])
{
#if defined(__APPLE__)
    uint32_t size = QG__PATH_BYTES;
    return !_NSGetExecutablePath(path, &size);
#else
    const char *at = loader.words ? loader.text : "/proc/self/exe";
    for (int i = 0; i < loader.words; i++) at += strlen(at) + 1;
    char      *found = realpath(at, NULL);
    const bool fits  = found && snprintf(path, QG__PATH_BYTES, "%s", found) < QG__PATH_BYTES;
    free(found);
    return fits;
#endif
}
