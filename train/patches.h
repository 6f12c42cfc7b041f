/* train/patches.h — filters that whiten the patches of images.  Internal. */
#ifndef QG_PATCHES_H
#define QG_PATCHES_H

#include "datasets/loader.h"
#include "layers/net.h"

/* Whether the weight of this layer can be such filters: it reads the images, and is not quantized.  The net
 * need not be built.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status qg__patches_check(const qg_net *net, const char *layer);

/* Sets the weight of a layer of a built net to filters that whiten patches of its images, and freezes it; a
 * bias is trained as usual.  The patches are all windows of kh kw c = k values inside the first 5,000 images,
 * or inside as many at equal distances of a larger set, normalised and without augmentation.  With their
 * covariance C,
 *
 *     C v_i = l_i v_i,   l_0 >= l_1 >= ..
 *     w_2i = v_i / sqrt(l_i + e),   w_2i+1 = -w_2i,   e = 0.0005 trace(C) / k
 *
 * Results of different filters but w_2i and w_2i+1 have no covariance, and variance l_i / (l_i + e).
 *
 * Shapes   The layer has one group and at most 2 k outputs; with fewer, the last filters are left out.  k is
 *          at most 256.
 * Fails    QG_EARG: as above, the sizes, or patches that are all the same.  QG_EMEM, and as qg_loader_image.
 *          The net is unchanged.
 * Differs  In airbench e is 0.0005, for images with variance 1, and the mean, which is 0 there, stays.
 *                                                                       [arXiv:2404.00498v2, sec. 3.2] */
QG_MUST_CHECK
qg_status qg__patches_whiten(qg_net *net, const char *layer, qg_loader *images);

#endif
