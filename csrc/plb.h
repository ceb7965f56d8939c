/* The C core of pylb in one header, without the parts that need MPI or Python.  The functions that
 * decide have no side effects; the code for MPI, files and Python calls these functions. */
#pragma once

#define PLB_VERSION "0.1.0"

#include "base/base.h"
#include "comm/transport.h"
#include "decide/advisor.h"
#include "decide/consensus.h"
#include "decide/decider.h"
#include "decide/trigger.h"
#include "measure/measure.h"
#include "model/model.h"
#include "partition/partition.h"
#include "place/strategy.h"
#include "replay/replay.h"
#include "run/run.h"
#include "whatif/whatif.h"
