/* train/result.h — result.json: the state of a run, and its cost.  Internal.
 *
 * One object, with a checksum of it as the last member.  It is replaced with every checkpoint and holds what no
 * checkpoint may contain: times, and the builds and machines that worked on the run.  Files of older versions have no
 * checksum.  If you edit a file by hand, remove its checksum.
 */
#ifndef QG_RESULT_H
#define QG_RESULT_H

#include "core/io/json_write.h"
#include "train/fit.h"

/* Fails as qg__file_read_in, and with QG_EFORMAT if the file is not a JSON object, lacks a member or is damaged. */
QG_MUST_CHECK
qg_status qg__result_read(qg_fit_result *r, int dir, const char *path);

/* Replaces the file at path by the n bytes of an object, with its checksum.  Fails as qg__file_commit. */
QG_MUST_CHECK
qg_status qg__result_write(int dir, const char *path, const char *object, size_t n);

/* The same by what qg_fit_result_print prints, without the run directory, because it may be moved.  Fails with QG_EMEM, too. */
QG_MUST_CHECK
qg_status qg__result_save(const qg_fit_result *r, const qg_fit_spec *spec, const qg_net *net, int dir, const char *path);

/* Every member that qg__result_read needs. */
void      qg__result_put(qg__json *j, const qg_fit_result *r);

/* Joins the value of earlier processes and that of this one: "first, second", or one of them if it includes the
 * other. */
void      qg__result_join(char to[QG_FIT_TEXT], const char *before, const char *now);

void      qg__digest(const qg_net *net, char text[17]);

#endif
