"""The error of this package."""

from __future__ import annotations

from xed_convert.errors import UopscopeError


class AnalysisError(UopscopeError):
    """Code cannot be analyzed as asked; the message says where and why."""
