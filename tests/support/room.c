#include "tests/support/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char room[32];

int room_enter(void **state)
{
    (void)state;
    strcpy(room, "/tmp/qg_test_XXXXXX");
    return mkdtemp(room) ? 0 : -1;
}

int room_leave(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", room);
    return system(command);
}

const char *in_room(const char *name)
{
    static char path[ROOM_BYTES];
    snprintf(path, sizeof path, "%s/%s", room, name);
    return path;
}
