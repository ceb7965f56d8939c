"""LBAF's replay of a recorded run; runs in another Python, in which LBAF is installed.

    python lbaf_replay.py PREFIX ID,ID,... REPEATS

Prints JSON: seconds to read the files, to create LBAF's objects from them, and the shortest time of
its PhaseStepper for all phases.  pylb is not needed.
"""

import contextlib
import inspect
import json
import logging
import sys
import time


def main(prefix, ids, repeats):
    from lbaf.Execution.lbsRuntime import Runtime
    from lbaf.IO import lbsStatistics
    from lbaf.IO.lbsVTDataReader import LoadReader
    from lbaf.Model.lbsPhase import Phase

    log = logging.getLogger("lbaf")
    logging.basicConfig(level=logging.ERROR)
    log.setLevel(logging.ERROR)
    LoadReader.SCHEMA_VALIDATOR_CLASS = object  # otherwise LBAF downloads a needless validator
    if hasattr(lbsStatistics, "initialize"):
        lbsStatistics.initialize()
    begin = time.perf_counter()
    reader = LoadReader(prefix, log, "json", check_schema=False)
    reading = time.perf_counter() - begin
    begin = time.perf_counter()
    phases = {}
    for i in ids:
        phases[i] = Phase(log, i, reader=reader)
        phases[i].populate_from_log(i)
    populating = time.perf_counter() - begin
    work = {"name": "AffineCombination", "parameters": {"beta": 0.0, "gamma": 0.0, "delta": 0.0}}
    how = {"name": "PhaseStepper", "phase_id": -1, "parameters": {}}
    old = "arrangements" in inspect.signature(Runtime.__init__).parameters
    more = ([], log, "load", "load") if old else (log,)
    stepping = float("inf")
    for _ in range(repeats):
        runtime = Runtime(phases, work, how, *more)
        begin = time.perf_counter()
        runtime.execute(-1)
        stepping = min(stepping, time.perf_counter() - begin)
    return {"reading": reading, "populating": populating, "stepping": stepping}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = main(sys.argv[1], list(map(int, sys.argv[2].split(","))), int(sys.argv[3]))
    print(json.dumps(found))
