/* cli/inspect.h — what the weights of a layer are, and what their quantizer makes of them. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include "cli/json.h"
#include "layers/layer.h"

enum { INSPECT_LEVELS = 8 };    /* as many values are listed one by one */

/* One code, and the values it stands for: one, or one per channel. */
typedef struct level {
    int32_t code;
    float   min, max;
    size_t  count;
} level;

typedef struct tensor {
    const char    *name;           /* of its layer */
    const qg_slot *slot, *input;
    size_t         count;
    bool           folded;         /* a batch norm is multiplied into it before it is quantized */
    float          latent_min, latent_max;
    float          min, max;       /* quantized */
    size_t         zeros;          /* quantized values that are 0 */
    bool           has_codes;
    int            bits, scales;
    size_t         codes;          /* how many different ones are used, by the channel with the most
                                      if each has a scale */
    int            levels;         /* entries of level; 0: too many to list */
    level          level[INSPECT_LEVELS];
} tensor;

/* min..max comes to hold v. */
static inline void widen(float v, float *min, float *max)
{
    *min = v < *min ? v : *min;
    *max = v > *max ? v : *max;
}

/* For people, and for programs. */
void inspect_print(const tensor *v);
void inspect_json(json *j, const tensor *v);

/* The same of a layer that does nothing but quantize: it has no weights, but may have learned. */
void inspect_print_quantizer(const char *name, const qg_slot *input);
void inspect_json_quantizer(json *j, const char *name, const qg_slot *input);

#endif
