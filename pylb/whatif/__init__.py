"""Record any MPI program, and simulate it on another machine.

In: the operations of a run (`Recording`) and a `Target`.  Out: `Prediction`, `CriticalPath`,
`Procedures`, `Suggestion`.  Imports `model`, `comm`, `place` and `io`; only `show` and `cli` import
this package.
"""

from pylb.whatif.factors import CriticalPath, ProcedureFactor, Procedures, critical_path, procedures
from pylb.whatif.prediction import Prediction, Target, whatif
from pylb.whatif.recorder import Recording, procedure
from pylb.whatif.suggestion import Suggestion, suggest

__all__ = [
    "CriticalPath",
    "Prediction",
    "ProcedureFactor",
    "Procedures",
    "Recording",
    "Suggestion",
    "Target",
    "critical_path",
    "procedure",
    "procedures",
    "suggest",
    "whatif",
]
