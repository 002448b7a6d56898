"""How large the samples of tests are that could be of any size.

`UOPSCOPE_LONG=1 ./test` takes the large ones, for changes of what such a test is about.
"""

import os

LONG = os.environ.get("UOPSCOPE_LONG", "0") not in ("", "0")


def sample(usual: int, large: int) -> int:
    """Return the size of a sample: the usual one, or the large one if that was asked for."""
    return large if LONG else usual
