"""Shell patterns in the tables: `*`, `?` and `[...]`, case matters."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def any_pattern(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return one regular expression for all of the patterns."""
    return re.compile("|".join(map(translate, patterns)))
