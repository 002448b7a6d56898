"""Encode assembly text as every variant that it can mean, and decode bytes back."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from xed_convert.errors import AssemblyError, DecodingError

if TYPE_CHECKING:
    from xed_convert.assembly.matching import Match
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.encoding.decoder import Decoded

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def encode(
    text: Annotated[
        str,
        typer.Argument(metavar="CODE", help='Intel syntax: "VADDPS ZMM1{K2}{z}, ZMM3, [R14]{1to16}"'),
    ] = "",
    decode: Annotated[str, typer.Option("--decode", metavar="HEX", help="Decode these bytes instead.")] = "",
    catalogue: Annotated[
        Path | None, typer.Option(metavar="XML", help="The catalogue to use instead of the shipped one.")
    ] = None,
    *,
    first: Annotated[bool, typer.Option("--first", help="Only the shortest encoding, and only its bytes.")] = False,
) -> None:
    """Encode assembly text as every variant that it can mean, the shortest first; or decode bytes."""
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - `--help` does not need it

    if bool(text) == bool(decode):
        message = "give either CODE or --decode HEX"
        raise AssemblyError(message, hint='For example: uopscope encode "ADD RAX, 5"')
    known = Catalogue.load(catalogue)
    lines = _decode(known, decode) if decode else _encode(known, text, first=first)
    print("\n".join(lines))


def _encode(catalogue: Catalogue, text: str, *, first: bool) -> list[str]:
    from xed_convert.assembly.assembler import Assembler  # noqa: PLC0415
    from xed_convert.assembly.syntax import parse  # noqa: PLC0415

    assembler = Assembler(catalogue)
    if first:
        return [assembler.assemble(text).hex(" ")]
    statements = parse(text)
    if not statements:
        message = "there is no instruction in the text"
        raise AssemblyError(message)
    if len(statements) == 1 and not any(one.kind == "label" for one in statements[0].operands):
        return [_line(match) for match in assembler.matcher.matches(statements[0])]
    return [_line(match) for match in assembler.instructions(statements)]


def _line(match: Match) -> str:
    return _describe(match.data.hex(" "), match)


def _describe(data: str, one: Match | Decoded) -> str:
    from xed_convert.assembly.formatting import format_instance  # noqa: PLC0415

    return f"{data:<32}  {format_instance(one.variant, one.values):<40}  {one.variant.string}  [{one.variant.iform}]"


def _decode(catalogue: Catalogue, text: str) -> list[str]:
    from xed_convert.encoding.decoder import Decoder  # noqa: PLC0415

    data = _bytes(text)
    decoder = Decoder(catalogue)
    lines, offset = [], 0
    while offset < len(data):
        one = decoder.decode(data, offset)
        end = offset + one.length_bytes
        lines.append(_describe(data[offset:end].hex(" "), one))
        offset = end
    return lines


def _bytes(text: str) -> bytes:
    """Read hexadecimal bytes; spaces, commas, and prefixes of numbers do not matter.

    Raises:
        DecodingError: it is no hexadecimal text.
    """
    compact = text.replace("0x", " ").replace("\\x", " ").replace(",", " ")
    try:
        data = bytes.fromhex(compact)
    except ValueError as error:
        message = f"not bytes in hexadecimal: {text[:60]!r}"
        raise DecodingError(message, hint="For example: --decode 62d164da580e") from error
    if not data:
        message = "there are no bytes to decode"
        raise DecodingError(message)
    return data
