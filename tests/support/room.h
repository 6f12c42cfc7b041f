/* tests/support/room.h — a directory for one test, which goes with it. */
#ifndef ROOM_H
#define ROOM_H

enum { ROOM_BYTES = 160 };

/* Setup and teardown of a test, or of a group. */
int         room_enter(void **state);
int         room_leave(void **state);

extern char room[32];      /* its path */

/* The path of name in it, until the next call. */
const char *in_room(const char *name);

#endif
