"""Errors of this layer."""

from __future__ import annotations

from xed_convert.errors import UopscopeError


class GenerationError(UopscopeError):
    """No microbenchmark can be made for a variant; the message names it."""


class AllocationError(GenerationError):
    """There is no register or value left for an operand."""


class FactError(UopscopeError):
    """A table of facts is malformed; the message begins with `file:line:`."""
