/* core/jacobi.h — eigenvectors of a small symmetric matrix.  Internal. */
#ifndef QG_JACOBI_H
#define QG_JACOBI_H

/* By the cyclic Jacobi method: rotations, in the order of the rows, make one element after another 0, until
 * none outside the diagonal exceeds 2^-53 |a| / n, where |a|^2 is the sum of the squares of all elements.  It
 * uses + - * / and sqrt of doubles in a fixed order, so the bits are the same on every machine.
 *
 *     a vector[i] = value[i] vector[i],   value[0] >= value[1] >= ..
 *
 * Shapes   a [n][n], symmetric; value [n]; vector [n][n], whose rows are orthogonal and have length 1.
 * Range    a finite, |a| from 1e-100 to 1e100, or 0.  A sweep takes about 3 n^3 multiply-adds; 6 to 10 are
 *          needed.
 * Memory   a is overwritten.
 * Source   Golub, Van Loan, Matrix Computations, 4th edition, sec. 8.5. */
void qg__jacobi(int n, double *a, double *value, double *vector);

#endif
