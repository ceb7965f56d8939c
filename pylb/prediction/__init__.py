"""Record any MPI program, and simulate it on another machine.

Input: the operations of a run (`Recording`) and a `Target`.  Output: `Prediction`, `CriticalPath`,
`Procedures`, `Suggestion`.  Imports `model`, `comm`, `placing` and `io`; only `show` and `cli`
import this package.
"""

from pylb.prediction.factors import (
    CriticalPath,
    ProcedureFactor,
    Procedures,
    critical_path,
    procedures,
)
from pylb.prediction.prediction import Prediction, Target, whatif
from pylb.prediction.recorder import Recording, procedure
from pylb.prediction.suggestion import Suggestion, suggest

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
