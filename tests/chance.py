"""Examples that hypothesis draws: the same for everybody and each time, in any order of the tests.

``PYLB_EXAMPLES=50`` draws fifty times as many, by real chance.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

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

if not EXPLORES:  # it would also draw from the constants in whatever modules have been loaded
    none = providers.Constants()
    providers._get_local_constants = lambda: none


def examples(n):
    """Settings of a test that draws n examples; without, it draws 100."""
    return settings(max_examples=n * TIMES)
