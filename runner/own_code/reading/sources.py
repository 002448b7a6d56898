"""Sources of code: text, bytes, files, symbols of object files; the same for all parts of a measurement.

add rax, rbx           text (an empty one: nothing)
@kernel.s              a file with text
hex:4801d8             bytes in hexadecimal
raw:code.bin           a file with machine code
object:kernel.o:loop   a function of an object file or a program, without its RET
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

from runner.own_code.code import MeasureError
from runner.own_code.reading.text import OperandSyntax, assemble
from xed_convert.assembly.syntax import LONGEST_TEXT
from xed_convert.errors import AssemblyError

MOST_BYTES = 1 << 20
"""Of a part: the kernel module's limit for all code."""


def code_of(source: str, syntax: OperandSyntax = OperandSyntax.INTEL) -> bytes:
    """Return the machine code that a source means.

    Raises:
        MeasureError: a file or the bytes cannot be read.
        ObjectError: there is no such symbol.
        AssemblyError: the text cannot be assembled.
    """
    kind, colon, rest = source.partition(":")
    if source.startswith("@"):
        try:
            return assemble(read_text(Path(source[1:])), syntax)
        except AssemblyError as error:
            raise error.of_file(source[1:]) from error
    if colon and kind == "hex":
        return bytes_of(rest)
    if colon and kind == "raw":
        return _read(Path(rest), MOST_BYTES)
    if colon and kind == "object":
        path, colon, symbol = rest.rpartition(":")
        if not colon:
            raise MeasureError(f"{source!r}: which symbol?", hint="object:FILE:SYMBOL")
        from runner.own_code.reading.objects import symbol_code  # noqa: PLC0415 - other code needs no reader of ELF files

        return symbol_code(Path(path), symbol)
    return assemble(source, syntax)


def bytes_of(text: str) -> bytes:
    """Return bytes written in hexadecimal, with or without blanks, commas and 0x.

    Raises:
        MeasureError: they are none.
    """
    plain = text.replace("0x", "").replace(",", " ")
    try:
        code = bytes.fromhex(plain)
    except ValueError:
        raise MeasureError(f"{text[:60]!r}: not bytes in hexadecimal", hint="for example: 4801d8480fafd8") from None
    if len(code) > MOST_BYTES:
        raise MeasureError(f"{len(code)} bytes of code are too many", hint=f"at most {MOST_BYTES}")
    return code


STANDARD_INPUT = "<stdin>"
"""What standard input is called where a file's name would stand, as compilers call it."""


def read_text(path: Path, most: int = 4 * LONGEST_TEXT) -> str:
    """Return the text of a file of at most `most` bytes.

    Raises:
        MeasureError: it cannot be read, or is no text.
    """
    return _decoded(_read(path, most), str(path))


def read_input(file: IO[bytes], most: int = 4 * LONGEST_TEXT) -> str:
    """Return the text of standard input, of at most `most` bytes.

    Raises:
        MeasureError: it is no text, or longer.
    """
    return _decoded(_checked(file.read(most + 1), STANDARD_INPUT, most), STANDARD_INPUT)


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError:
        raise MeasureError(
            f"{name}: not a text",
            hint="machine code: --bytes HEX; an object file or program: --object FILE --symbol NAME",
        ) from None


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise MeasureError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return _checked(data, str(path), most)


def _checked(data: bytes, name: str, most: int) -> bytes:
    if len(data) > most:
        raise MeasureError(f"{name}: more than {most:,} bytes")
    return data
