/* tests/support/room.h — a directory for one test, which goes with it. */
#ifndef ROOM_H
#define ROOM_H

#include <stddef.h>

enum { ROOM_BYTES = 160, DIRECTORY_BYTES = 64 };

/* A new directory below $TMPDIR, or below /tmp where that path is long; 0, or -1 as setups return it.  What nobody
 * has removed goes when the program ends. */
int         make_directory(char path[DIRECTORY_BYTES]);
int         remove_directory(const char *path);     /* and all that is in it, permissions or not */

/* Setup and teardown of a test, or of a group. */
int         room_enter(void **state);
int         room_leave(void **state);

extern char room[DIRECTORY_BYTES];      /* its path */

/* The path of name in it, until the next call. */
const char *in_room(const char *name);

/* Writes a file in it; the program ends if it cannot. */
void        write_in_room(const char *name, const void *bytes, size_t n);
void        write_text(const char *name, const char *text);

/* The path of the one file that a program without a room needs: no file at first, and none once the program ends. */
const char *scratch_file(void);

#endif
