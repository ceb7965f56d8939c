#pragma once

#include "partition/partition.h"

/* Make a string from the value of a macro, or from the three numbers of a version. */
#define PLB_TEXT_OF(x) #x
#define PLB_TEXT(x) PLB_TEXT_OF(x)
#define PLB_VERSION3(a, b, c) PLB_TEXT(a) "." PLB_TEXT(b) "." PLB_TEXT(c)

extern const plb_partitioner_t plb_metis;
extern const plb_partitioner_t plb_scotch;
extern const plb_partitioner_t plb_zoltan;
