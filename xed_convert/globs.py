"""Shell patterns in the tables: `*`, `?` and `[...]`, case matters."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache


@cache
def any_pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return a regular expression that matches what any of the patterns matches."""
    return re.compile("|".join(map(translate, patterns)))
