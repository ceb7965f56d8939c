"""From measurements to estimates: how a placement does, how fast the ranks are."""

from pylb.measure.evaluation import Evaluation, evaluate
from pylb.measure.learner import SpeedLearner
from pylb.measure.monitor import Monitor

__all__ = ["Evaluation", "Monitor", "SpeedLearner", "evaluate"]
