"""Pictures of a run, with matplotlib: one function a picture, each returns its axes.

Colours are those of Okabe and Ito and the map cividis, which read alike for all eyes.  Where there
are more ranks or iterations than pixels, neighbours are drawn as one.
"""

from pylb.show.plots.common import BLUE, GREY, ORANGE, VERMILLION
from pylb.show.plots.decisions import decisions, fits, optimum
from pylb.show.plots.events import timeline
from pylb.show.plots.moves import communication, migrations
from pylb.show.plots.objects import objects
from pylb.show.plots.ranks import before_after, imbalance, rank_loads

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
