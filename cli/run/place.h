/* cli/run/place.h — the directory of a run that --out does not name, and the run that --resume continues there. */
#ifndef CLI_PLACE_H
#define CLI_PLACE_H

#include "cli/config/config.h"

/* Where the runs of the command line `asked`, which config_read has read, are written: runs/MODEL-WEIGHT-CHANGES-SEED or
 * runs/RECIPE/CHANGES-seed-SEED.  CHANGES lists the options of the command line whose values are not those of the model, the
 * file of --config or the recipe: "cifar10-lr=0.1", the data set without its key.  Characters that a shell or a path would
 * interpret become -, and a long name ends with a hash instead.  Fails as config_read and qg_recipe_get. */
QG_MUST_CHECK
qg_status place_name(const config *asked, char dir[QG__PATH_BYTES]);

/* The directory of a sweep: --out, or runs/sweep-MODEL-CHANGES-LISTS.  What a list contains is not part of it, so a list may grow.
 * Fails with QG_EARG: the path is too long. */
QG_MUST_CHECK
qg_status place_of_sweep(const config *asked, char dir[QG__PATH_BYTES]);

/* The directory of its combination k, whose options are in *one: OUT/LISTS-seed-SEED, and OUT/RECIPE/LISTS-seed-SEED with --recipe, as
 * train calls it.  Fails in the same way. */
QG_MUST_CHECK
qg_status place_of_combination(const char *out, const config *asked, int k, const config *one, char dir[QG__PATH_BYTES]);

/* Turns dir into the first of dir, dir-2, dir-3, .. that does not exist, and, unless made is NULL, makes this directory
 * (qg__path_make), so that no two processes take the same one.  Fails with QG_EARG (the path is too long), QG_ESTATE (all exist), QG_EIO. */
QG_MUST_CHECK
qg_status place_take(char dir[QG__PATH_BYTES], size_t *made);

enum { PLACE_MISSED_BYTES = QG__PATH_BYTES + 3 * QG_RECIPE_VALUE_BYTES };

/* The next key, after `after` or the first, that makes a run another one than what is asked for; NULL: none.  Digests that only a
 * run notes are no such keys. */
const qg_recipe_key *place_difference(qg_recipe *asked, qg_recipe *run, const qg_recipe_key *after);

/* Both begin with other weights or neither does, and both have a teacher or neither has.  Digests are known only
 * when the files have been read. */
bool place_starts_alike(const config *asked, qg_recipe *run);

/* Looks among the directories beside dir, without those that --force has set aside, for the runs that the
 * command line `asked` describes, and sets dir to the one that --resume continues.  Of those that no
 * process is training and that were begun under the version of the arithmetic that this program has for
 * them, this is one whose initial weights and teacher are where asked says, then an unfinished one, then
 * one whose images are where asked says, then the newest.  The time of a run is that of its last
 * checkpoint.  *found: there is one.  Otherwise missed says, for a warning, which run may have been meant,
 * the newest of them; empty: none:
 *
 *     a process is training in runs/a
 *     runs/b was begun under version 1 of the arithmetic, and this program trains it under version 2
 *     runs/c differs only in lr, which is 0.1 there */
void      place_find(const config *asked, char dir[QG__PATH_BYTES], bool *found, char missed[PLACE_MISSED_BYTES]);

#endif
