"""The base class of all errors with messages for people, and this layer's own errors.

An error says what is wrong, where (file and line, variant, option) and what the user can do. The command line prints
`str(error)` and exits.
"""

from __future__ import annotations


class UopscopeError(Exception):
    """What is wrong and where, and an optional hint: what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep the message, and the hint for `__str__`."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Return the message, followed by the hint on a line of its own if there is one."""
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ConversionError(UopscopeError):
    """A datafile or a catalogue cannot be read. The message begins with `file:line:` or, about all of it, `file:`."""


class EncodingError(UopscopeError):
    """A variant cannot be encoded with the operands given."""


class DecodingError(UopscopeError):
    """Bytes are not an instruction of the catalogue; the message names the offset."""


class UnknownInstructionError(UopscopeError):
    """No variant of the catalogue matches a name or pattern; the hint lists similar ones."""


class AssemblyError(UopscopeError):
    """Assembly text cannot be read, or stands for no instruction of the catalogue."""

    def of_file(self, name: str) -> AssemblyError:
        """Return the error with the file that the text is from ("": it is from none)."""
        return AssemblyError(f"{name}: {self.message}", hint=self.hint) if name else self
