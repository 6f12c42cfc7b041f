/* core/status.h — how things fail.
 *
 * A function that can fail returns qg_status, or a pointer that is NULL on failure.  After a failure, qg_errmsg()
 * returns the reason, until the next failure in the same thread.  A success does not clear the message, so read it
 * only after a failure.
 *
 * A message may quote names from files that others have written.  It is UTF-8, has one line, and is safe to print on a
 * terminal: control characters appear as \u001b, bytes that are not UTF-8 as \xff.
 */
#ifndef QG_STATUS_H
#define QG_STATUS_H

/* The missing header ends the compilation, so that nothing follows the message. */
#if (defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8) || \
    (defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
#error "qgrad is for little-endian machines of 64 bits"
#include <nothing-else-can-be-compiled>
#endif

typedef enum qg_status {
    QG_OK,
    QG_EMEM,                /* out of memory */
    QG_ESHAPE,              /* shapes do not fit */
    QG_EARG,                /* argument out of range */
    QG_EIO,                 /* cannot open, read or write */
    QG_EFORMAT,             /* file is malformed */
    QG_ESTATE,              /* called at the wrong time */
    QG_ENAN                 /* value is not finite */
} qg_status;

#if defined(__GNUC__)
#define QG_MUST_CHECK      __attribute__((warn_unused_result))
#define QG_PRINTF(fmt, at) __attribute__((format(printf, fmt, at)))
#else
#define QG_MUST_CHECK
#define QG_PRINTF(fmt, at)
#endif

#ifdef __cplusplus
#define QG_NORETURN [[noreturn]]
#else
#define QG_NORETURN _Noreturn
#endif

const char *qg_errmsg(void);                             /* the message of the last failure; never NULL */
qg_status   qg_errcode(void);                            /* its status, for functions that return NULL */
int         qg_print_error(const char *program);         /* print "program: message" to stderr; returns 1 */
QG_PRINTF(2, 3)
qg_status   qg_fail(qg_status s, const char *fmt, ...);  /* set the message, return s */
QG_PRINTF(2, 3)
void       *qg__refuse(qg_status s, const char *fmt, ...);   /* the same for functions that return a pointer: NULL */
qg_status   qg__fail_null(qg_status s, const char *what); /* the same for an argument that is NULL; the message
                                                            quotes the last failure, which is usually the cause */

/* For broken contracts of op and layer authors, never for user data: prints file:line and aborts. */
#define QG_ASSERT(cond) ((cond) ? (void)0 : qg_assert_failed(__FILE__, __LINE__, #cond))
QG_NORETURN void qg_assert_failed(const char *file, int line, const char *cond);

#endif
