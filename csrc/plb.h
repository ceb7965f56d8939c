/* The C core of pylb, for users of the library.  Decisions are pure functions here; MPI, files
 * and Python are shells around them. */
#ifndef PLB_H
#define PLB_H

#define PLB_VERSION "0.1.0"

#include "base/cpu.h"
#include "base/csr.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/item.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/sort.h"
#include "base/wait.h"
#include "decide/consensus.h"
#include "decide/fit.h"
#include "decide/ledger.h"
#include "decide/period.h"
#include "decide/select.h"
#include "decide/trigger.h"
#include "explore/optimum.h"
#include "explore/program.h"
#include "explore/replay.h"
#include "explore/trace.h"
#include "explore/vt.h"
#include "measure/clock.h"
#include "measure/estimate.h"
#include "measure/evaluate.h"
#include "measure/exact.h"
#include "measure/metrics.h"
#include "measure/snapshot.h"
#include "measure/stats.h"
#include "partition/partition.h"
#include "place/agent.h"
#include "place/problem.h"
#include "place/refine.h"
#include "place/rounds.h"
#include "place/strategy.h"

#endif
