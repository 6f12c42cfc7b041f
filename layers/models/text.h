/* layers/models/text.h — a net as text, in the notation of the papers: 32C5-BN-R-MP2-512FC-BN-R-10.
 *
 *     net    = part *( "-" part )
 *     part   = [ count "*" ] ( layer | "(" net ")" | block )
 *     block  = "{" net "}" [ ":" kind ]  |  kind ":{" net "}"      its input is added to its output
 *     kind   = "A" | "pool" | "B" | "poolB"                        of its shortcut
 *
 *     32C5           convolution: 32 channels, 5 x 5.  After it, in any order: x3 (5 rows, 3 columns), s2
 *                    (stride), p1 (padding on each side; by default the size stays the same at stride 1) or
 *                    psame (qg_conv2d_spec.same), g4 (groups), b0 (no bias)
 *     DW3            depthwise convolution, 3 x 3; as many channels as before.  x, s, p and b as above
 *     512FC          dense layer, 512 units; b0: no bias
 *     10             dense layer that ends a net: one unit per class
 *     BN             batch norm; BN(eps=1e-4,momentum=0.15,no-scale,no-shift,whole) as qg_batchnorm_spec
 *     R  HT  SG  TH  relu, hardtanh, sigmoid, tanh
 *     PR  RPR        PReLU, and RPReLU with learned shifts; PR(start=0.25,shared) as qg_prelu_spec
 *     MP2  AP2  GAP  maxima and means over 2 x 2 pixels, means over all pixels
 *     MP3s2p1        windows of 3 x 3 at every second pixel, padded by 1, as qg_pool_spec; AP likewise
 *     MP2k           keeps its place (see below)
 *     D0.5  D1e-3    dropout
 *     AF(scale=2,shift=-1)   scale x + shift
 *     Q              the input quantizer of the next product as a layer, if it replaces a relu; else
 *                    a relu
 *     IQ             only at the beginning: the first product also quantizes its input, unless the
 *                    ends of the net are float
 *
 * The quantizers are those of the spec, as for any model; products are conv1, conv2, .. and fc1, fc2, .. in
 * order.  An input quantizer takes its place before its product:
 *
 *     an R right before it, or with an MP between them, is left out if the quantizer rectifies; with
 *     other pools between them, or pools before a block, only if it takes signs, since those of what R
 *     leaves are all +1
 *     an MP between them comes before BN and R if the quantizer is binary: the maximum over a window of
 *     signs is +1 nearly everywhere                                      [XNOR-Net, 1603.05279v4, section 3.2]
 *     An MP with k stays where it is
 *     it comes before a D, because a dropped value is 0, which may not be a code
 *     R right before a block whose first product rectifies is that quantizer, so that the shortcut also reads it:
 *     -1 and +1 if it is a sign.  The summary points this out
 *     one that scales the result of its product, as xnor, is no layer: in place of a Q, or of an R before a
 *     block, each product quantizes what it reads, and the shortcut reads floats
 *     the product after a Q, or after Q-R, Q-MP or Q-{, leaves out a quantizer that replaces a relu, and
 *     so does a shortcut B that reads a Q; the product after Q-GAP or Q-AP quantizes the means
 *
 * A block that changes the shape names its shortcut, as qg_shortcut_kind; B and poolB are conv "shortcut1", .., with
 * a batch norm if the block ends with one.  A kind before the block declares the shortcut before it,
 * so that the batch norm that ends the block can add it in its own pass.  A shortcut reads every
 * s-th pixel, or means of s x s pixels, where s gives the size of the block.
 */
#ifndef QG_MODEL_TEXT_H
#define QG_MODEL_TEXT_H

#include "layers/models/models.h"

enum { QG_NET_TEXT_PARTS = 4096 };          /* the most that a text may have, counted with repetitions */

/* Declares the net, which the caller builds; spec.classes 0: whatever the text says.
 *
 * Fails    NULL.  QG_EARG: text is no net; the message shows what is wrong and at which character.  As qg_model_declare. */
qg_net *qg_net_from_text(const char *text, qg_model_spec spec);

#endif
