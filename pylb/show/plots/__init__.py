"""Pictures of a run, drawn by matplotlib: one function for each picture.

Each function draws on the axes `ax`, by default those of a new figure, and returns them.  Without
matplotlib it raises `MissingPartError`.  If there are more ranks or iterations than pixels, groups
of neighbours are drawn as one.  The colours (Okabe and Ito's, and the map cividis) are colour-blind
safe.
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
