"""Imported before MPI: start the program again, with the library FAULTY_LIBRARY preloaded."""

import os
import sys

if "FAULTY_LIBRARY" in os.environ and "LD_PRELOAD" not in os.environ:
    os.environ["LD_PRELOAD"] = os.environ["FAULTY_LIBRARY"]
    os.execv(sys.executable, sys.orig_argv)
