"""Pictures of a run, with matplotlib: one function for each picture.

Each draws on the axes `ax`, by default those of a new figure, and returns them; without matplotlib
it raises `MissingPartError`.  If there are more ranks or iterations than pixels, neighbours are
drawn as one.  The colours, of Okabe and Ito and of the map cividis, are colour-blind safe.
"""

from pylb.show.plots.common import BLUE, GREY, ORANGE, VERMILLION
from pylb.show.plots.events import timeline
from pylb.show.plots.moves import communication, migrations
from pylb.show.plots.placements import objects
from pylb.show.plots.ranks import before_after, imbalance, rank_loads
from pylb.show.plots.receipts import decisions, fits, optimum

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
