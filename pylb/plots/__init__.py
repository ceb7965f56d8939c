"""Pictures of a run, with matplotlib: one function a picture, each returns its axes.

Colours are those of Okabe and Ito and the map cividis, which read alike for all eyes.  Where there
are more ranks or iterations than pixels, neighbours are drawn as one.
"""

from pylb.plots.common import BLUE, GREY, ORANGE, VERMILLION
from pylb.plots.decisions import decisions, fits, optimum
from pylb.plots.events import timeline
from pylb.plots.moves import communication, migrations
from pylb.plots.objects import objects
from pylb.plots.ranks import before_after, imbalance, rank_loads

__all__ = [
    "BLUE",
    "GREY",
    "ORANGE",
    "VERMILLION",
    "before_after",
    "communication",
    "decisions",
    "fits",
    "imbalance",
    "migrations",
    "objects",
    "optimum",
    "rank_loads",
    "timeline",
]
