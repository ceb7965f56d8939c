/* Divides a grid into one rectangle for each processor, with areas proportional to shares.
 *
 * The method is column-based (Beaumont, Boudet, Rastello, Robert, "Matrix multiplication on
 * heterogeneous platforms", IEEE TPDS 12, 2001): the grid is cut into columns, and each column
 * into the rectangles of its processors.  The sum of half perimeters (width + height) measures the
 * communication between neighbours.  In the best columns, processors have similar shares; dynamic
 * programming finds these columns. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/** Find column[i], the column of processor i with share[i] >= 0, for a grid of rows x cols;
 * columns are numbered in the order of their lowest processors.  *perimeter: the sum of the half
 * perimeters, in grid cells.  Ties: the column with the smallest shares gets the most processors.
 * Time: O(p^2). */
int plb_rectangles_columns(const double *share, int32_t p, double rows, double cols,
                           int32_t *column, double *perimeter, plb_err_t *err);

/** Compute the sum of the half perimeters for given columns and areas proportional to shares. */
int plb_rectangles_perimeter(const double *share, const int32_t *column, int32_t p, double rows,
                             double cols, double *perimeter, plb_err_t *err);

/** Compute box[4 p]: for each processor its first row, the row after its last one, its first
 * column, and the column after its last one.  Widths of columns and heights in a column are
 * rounded by the method of the largest remainder (apportion.h); within a column, processors keep
 * their order.  All column[i] must be in 0 ... p - 1. */
int plb_rectangles_place(const double *share, const int32_t *column, int32_t p, int64_t rows,
                         int64_t cols, int64_t *box, plb_err_t *err);
