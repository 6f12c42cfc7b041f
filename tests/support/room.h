/* tests/support/room.h — a temporary directory for one test. */
#ifndef ROOM_H
#define ROOM_H

#include <stddef.h>

enum { ROOM_BYTES = 160, DIRECTORY_BYTES = 64 };

/* Makes a directory below $TMPDIR, or below /tmp if that path is long.  Returns 0, or -1 as setup functions do.  It is
 * removed at the latest when the program ends. */
int         make_directory(char path[DIRECTORY_BYTES]);
int         remove_directory(const char *path);     /* with everything in it, whatever its permissions */

/* Setup and teardown of a test, or of a group. */
int         room_enter(void **state);
int         room_leave(void **state);

extern char room[DIRECTORY_BYTES];      /* its path */

/* The path of name in it, until the next call. */
const char *in_room(const char *name);

/* Writes a file in it; a failure ends the program. */
void        write_in_room(const char *name, const void *bytes, size_t n);
void        write_text(const char *name, const char *text);

/* The path of the single file that a program without a room needs.  The file does not exist at first and is removed
 * when the program ends. */
const char *scratch_file(void);

#endif
