/* core/io/keys.h — the grammar of small texts: name:key=value,key=value.
 *
 * A table of keys says what each is called, which values it takes and what it is by default.  Parsing, printing, error
 * messages and help all read that table.  Values are doubles, one for each key, in the order of the table.  The value of a
 * list is how many numbers it has; there is room for `most` of them after the values of all keys, list after list.
 */
#ifndef QG_KEYS_H
#define QG_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

/* Bits of qg_key.is. */
enum {
    QG_KEY_WHOLE = 1,       /* a whole number */
    QG_KEY_SHOWN = 2,       /* printed even at its default */
    QG_KEY_FLAG = 4,        /* written without a value; 0 or 1 */
    QG_KEY_REQUIRED = 8,    /* has no default */
    QG_KEY_ABOVE_MIN = 16,  /* min itself is not legal */
    QG_KEY_BELOW_MAX = 32,  /* max itself is not legal */
    QG_KEY_SIZE = 64,       /* `most` numbers, "32x32x3"; the only key of its table, written without its name */
    QG_KEY_ANY_ORDER = 128, /* a list of different numbers, whose order is kept */
    QG_KEY_SERIES = 256     /* a list of any numbers in the range, whose order is kept */
};

/* A number from min to max (or `also`), or one of the words in "exact|as-printed", whose value is its index. */
typedef struct qg_key {
    const char *name;       /* NULL ends the table */
    double      fallback;   /* the default; if it is not legal, the owner of the table decides what it means */
    double      min, max;
    const char *words;
    unsigned    is;
    double      also;       /* one more legal number; 0: none */
    const char *when;       /* "range=learned|fixed" or "bits=2..8": what another key must be for this one to have an
                               effect; NULL: it always has one */
    const char *below;      /* another number, which must be greater; NULL: none */
    const char *alias;      /* an older name, which is still read; NULL: none */
    const char *about;      /* what it is for, in a few words */
    int         most;       /* 1 to this many numbers, "0.5+0.8", increasing without one of these bits; 0: one number */
    size_t      at;         /* of a layer or a net: where its struct has the value (qg_layer_type); else 0 */
} qg_key;

enum { QG_MAX_KEYS = 16, QG_MAX_LIST = 128, QG_MAX_VALUES = QG_MAX_KEYS + QG_MAX_LIST, QG_KEY_BYTES = 64 };

/* One of several things that are chosen by name, each with keys of its own. */
typedef struct qg_variant {
    const char   *name;     /* NULL ends the table */
    const char   *about;
    const qg_key *keys;     /* NULL: none */
} qg_variant;

int         qg_keys_count(const qg_key *keys);              /* of NULL: 0 */
int         qg_key_words(const qg_key *key);                /* how many; 0: it is a number */
int         qg_keys_find(const qg_key *keys, const char *name, size_t length);     /* by name or alias; -1: none */

/* Whether key i has an effect together with these values (when). */
bool        qg__key_has_effect(const qg_key *keys, int i, const double *value);

/* Values of the keys in text, "key=value,..", and defaults for the others; a key without effect is 0.  text NULL: no key is
 * given.  name begins each message; NULL: nothing does.  Fails with QG_EARG: an unknown key, a key given twice or without
 * effect, a required key that is missing, an illegal value.
 *
 * Shapes   value [qg_keys_count(keys)], with lists as many more as they may have; QG_MAX_VALUES are always enough. */
QG_MUST_CHECK
qg_status   qg_keys_parse(const char *name, const char *text, const qg_key *keys, double *value);

/* The same, but under replaces the defaults of the keys that it names: "key=value,..", legal values of keys in the table; a key
 * or word that the table lacks is skipped.  NULL: nothing is replaced. */
QG_MUST_CHECK
qg_status   qg__keys_parse_over(const char *name, const char *under, const char *text, const qg_key *keys, double *value);

/* Sets the values of the keys that under names. */
void        qg__keys_over(const char *under, const qg_key *keys, double *value);

/* The same for "name:key=value,..", where name is one of the variants; *index tells which.  what, "schedule", is for the
 * message about an unknown name, which lists the known ones. */
QG_MUST_CHECK
qg_status   qg__variants_parse(const char *what, const char *text, const qg_variant *variants, int *index, double *value);
QG_MUST_CHECK
qg_status   qg__variants_find(const char *what, const char *text, const qg_variant *variants, int *index);  /* the name alone */

/* Whether values that did not come from a text are legal: each in its range, and 0 where it has no effect. */
QG_MUST_CHECK
qg_status   qg__keys_check(const char *name, const qg_key *keys, const double *value);

/* The one spelling, "name:key=value,..": without keys at their default unless QG_KEY_SHOWN, and without those that have no
 * effect.  name NULL: only the keys. */
void        qg_keys_print(const char *name, const qg_key *keys, const double *value, char *text, size_t bytes);
void        qg__keys_print_over(const char *name, const char *under, const qg_key *keys, const double *value,
                                char *text, size_t bytes);  /* without keys at the default that under gives them */
const char *qg_key_value(const qg_key *key, double value, char text[QG_KEY_BYTES]);

/* The legal values, as "0.01..10", "1..16 or 32", "(0, 1)", "more than 0" or the words; and the default, as "0.7", "auto" or
 * "required". */
const char *qg_key_range(const qg_key *key, char *text, size_t bytes);
bool        qg_key_has_default(const qg_key *key);          /* its default is a legal value */
const char *qg_key_default(const qg_key *key, char text[QG_KEY_BYTES]);

#endif
