/* The libraries behind the interface of partition/partition.h, one thin file each. */
#ifndef PLB_PARTITION_LIBRARIES_PARTITIONERS_H
#define PLB_PARTITION_LIBRARIES_PARTITIONERS_H

#include "partition/partition.h"

extern const plb_partitioner_t plb_metis;
extern const plb_partitioner_t plb_scotch;
extern const plb_partitioner_t plb_zoltan;

#endif
