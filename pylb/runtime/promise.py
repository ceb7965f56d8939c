"""Whether a balancing has kept its promise: where ranks are not alike, the first cannot."""

from __future__ import annotations

import math

FIRST = 3  # iterations after a balancing, the first of which may be warming up
BROKEN = 1.05  # max/mean over the predicted one
WORSE = 1.1  # max/mean over that at the last look
SOON = 2  # looks that come as soon as they may
LOST = 8.0  # looks that what was lost since the last one would have paid for


class Promise:
    """Says when to look why iterations take longer than the last balancing said that they would.

    The reason may be that ranks are of unlike speeds, or that one has just changed its speed, which
    a strategy that is told of seconds cannot know.  A look costs about as much as a balancing
    without its migrations, so eight times that must have been lost first.  Looks that follow one
    another with the promise still broken are twice as far apart each time, so that where there is
    another reason (noise, work that changes all the time) they cost the logarithm of the run; and
    come at once when it is worse than at the last.

    A state machine that all ranks feed with the same figures.
    """

    def __init__(self) -> None:
        self._predicted = math.inf
        self._price = 0.0  # seconds of a look
        self._since = 0  # iterations since the last balancing or look
        self._lost = 0.0  # seconds since then
        self._last = 1.0  # max/mean of the iteration before
        self._looks = 0
        self._level = math.inf  # max/mean at the last look

    def observe(self, longest: float, mean: float) -> bool:
        """An iteration is over: load of the longest rank, mean load; whether to look."""
        ratio = longest / mean if mean > 0 else 1.0
        self._since += 1
        if math.isfinite(self._predicted):
            self._lost += max(longest - self._predicted * mean, 0.0)
        now = min(ratio, self._last)  # two in a row: no spike
        self._last = ratio
        if self._since < FIRST:
            return False
        if now <= BROKEN * self._predicted:
            self._looks = 0
            return False
        if now > WORSE * self._level:
            self._looks = 0
        pause = FIRST * 2 ** max(self._looks - SOON + 1, 0)
        if (self._looks and self._since < pause) or self._lost < LOST * self._price:
            return False
        self._looks += 1
        self._level = now
        self._begin()
        return True

    def balanced(self, predicted: float, price: float) -> None:
        """A balancing has promised that max/mean; a look costs so many seconds."""
        self._predicted = max(predicted, 1.0)
        self._price = price
        self._last = 1.0  # the first iteration may be warming up
        self._begin()

    def _begin(self) -> None:
        self._since, self._lost = 0, 0.0
