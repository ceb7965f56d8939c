"""How hypothesis draws examples: the same ones each time the same tests run.

Hypothesis also tries constants that it finds in the modules loaded so far, so another selection of
tests may draw others; a failure prints how to repeat it.  ``PYLB_EXAMPLES=50`` draws fifty times
as many examples, different ones in every run.
"""

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("PYLB_EXAMPLES", "1"))
EXPLORES = "PYLB_EXAMPLES" in os.environ

settings.register_profile(
    "pylb",
    max_examples=100 * TIMES,
    derandomize=not EXPLORES,
    database=None,
    print_blob=True,
    deadline=None,  # the machine may be busy
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pylb")


def examples(n):
    """Return the settings of a test that draws n examples; the default is 100."""
    return settings(max_examples=n * TIMES)
