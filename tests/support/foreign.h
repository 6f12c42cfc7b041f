/* tests/support/foreign.h — files as programs write them that know no checksum. */
#ifndef FOREIGN_H
#define FOREIGN_H

/* Puts spaces in place of the checksum of a file of qg_state_save. */
void forget_checksum(const char *path);

#endif
