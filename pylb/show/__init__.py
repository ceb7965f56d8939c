"""A run as a page, as tables, as a timeline, as pictures and as a widget.

`course` has what a run was like, whatever holds it; everything else here shows a `Course`.
"""

from pylb.show import plots
from pylb.show.explorer import explore
from pylb.show.report import report

__all__ = ["explore", "plots", "report"]
