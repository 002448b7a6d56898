"""Errors of simulated code."""

from xed_convert.errors import UopscopeError


class SimulatedFaultError(UopscopeError):
    """The simulated code faults: bytes that are no instruction, or a jump out of the code."""


class SimulatedHangError(UopscopeError):
    """The simulated code does not come to an end."""
