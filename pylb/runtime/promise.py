"""Whether a balancing has kept its promise: where ranks are not alike, the first cannot."""

from __future__ import annotations

import math

FIRST = 3  # iterations after a balancing, the first of which may be warming up
BROKEN = 1.05  # max/mean over the predicted one
WORSE = 1.1  # max/mean over that at the last look
SOON = 2  # looks that come as soon as they may


class Promise:
    """Says when to look why max/mean is not what the last balancing said that it would be.

    The reason may be that ranks are of unlike speeds, or that one has just changed its speed, which
    a strategy that is told of seconds cannot know.  A look costs about as much as a balancing
    without its migrations.  Looks that follow one another with the promise still broken are twice
    as far apart each time, so that where there is another reason (noise, work that changes all the
    time) they cost the logarithm of the run; and come at once when it is worse than at the last.

    A state machine that all ranks feed with the same figures.
    """

    def __init__(self) -> None:
        self._predicted = math.inf
        self._since = 0  # iterations since the last balancing or look
        self._last = 1.0  # max/mean of the iteration before
        self._looks = 0
        self._level = math.inf  # max/mean at the last look

    def observe(self, max_over_mean: float) -> bool:
        """An iteration is over; whether to look."""
        self._since += 1
        now = min(max_over_mean, self._last)  # two in a row: no spike
        self._last = max_over_mean
        if self._since < FIRST:
            return False
        if now <= BROKEN * max(self._predicted, 1.0):
            self._looks = 0
            return False
        if now > WORSE * self._level:
            self._looks = 0
        pause = FIRST * 2 ** max(self._looks - SOON + 1, 0)
        if self._looks and self._since < pause:
            return False
        self._looks += 1
        self._level = now
        self._since = 0
        return True

    def balanced(self, predicted: float) -> None:
        """A balancing has promised that max/mean."""
        self._predicted = predicted
        self._since = 0
        self._last = 1.0  # the first may be warming up
