/* tests/support/foreign.h — files as other programs, and other versions of this one, write them. */
#ifndef FOREIGN_H
#define FOREIGN_H

/* Puts spaces in place of the checksum of a file of qg_state_save. */
void forget_checksum(const char *path);

/* Gives a checkpoint another note, or takes one away if value is NULL, and a checksum that is right. */
void note_anew(const char *path, const char *key, const char *value);

#endif
