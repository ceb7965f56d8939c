"""Turn measurements into estimates, metrics and speeds.

In: a snapshot and a placement, times of objects and ranks.  Out: `Evaluation`, speeds of ranks.
Imports `model`.
"""

from pylb.measure.evaluation import Evaluation, evaluate
from pylb.measure.monitor import Monitor, SpeedLearner

__all__ = ["Evaluation", "Monitor", "SpeedLearner", "evaluate"]
