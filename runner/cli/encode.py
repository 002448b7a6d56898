"""Encode assembly text as every variant that it can mean, and decode bytes back."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from xed_convert.errors import AssemblyError

if TYPE_CHECKING:
    from xed_convert.assembly.matching import Match
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.encoding.decoder import Decoded

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def encode(
    code: Annotated[
        list[str] | None,
        typer.Argument(metavar="CODE", help='Intel syntax: "VADDPS ZMM1{K2}{z}, ZMM3, [R14]{1to16}"'),
    ] = None,
    decode: Annotated[
        str, typer.Option("--decode", metavar="HEX", help="Decode these bytes instead: 4801d8, or 48 01 d8.")
    ] = "",
    catalogue: Annotated[
        Path | None, typer.Option(metavar="XML", help="The catalogue to use instead of the shipped one.")
    ] = None,
    *,
    first: Annotated[bool, typer.Option("--first", help="Only the shortest encoding, and only its bytes.")] = False,
) -> None:
    """Encode assembly text as every variant that it can mean, the shortest first; or decode bytes."""
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - `--help` does not need it

    text = " ".join(code or [])
    if decode and _is_hexadecimal(text):
        text, decode = "", f"{decode} {text}"
    if bool(text) == bool(decode):
        message = "give either CODE or --decode HEX"
        raise AssemblyError(message, hint='For example: uopscope encode "ADD RAX, 5"')
    known = Catalogue.load(catalogue)
    lines = _decode(known, decode) if decode else _encode(known, text, first=first)
    print("\n".join(lines))


def _is_hexadecimal(text: str) -> bool:
    """Return whether words are bytes that the shell has parted from those of --decode."""
    from xed_convert.encoding.decoder import bytes_of  # noqa: PLC0415
    from xed_convert.errors import DecodingError  # noqa: PLC0415

    try:
        return bool(bytes_of(text))
    except DecodingError:
        return False


def _encode(catalogue: Catalogue, text: str, *, first: bool) -> list[str]:
    from xed_convert.assembly.assembler import Assembler  # noqa: PLC0415

    assembler = Assembler(catalogue)
    if first:
        return [assembler.assemble(text).hex(" ")]
    return [_line(match.data, match) for match in assembler.encodings(text)]


def _line(data: bytes, one: Match | Decoded) -> str:
    from xed_convert.assembly.formatting import format_instance  # noqa: PLC0415

    text = format_instance(one.variant, one.values)
    return f"{data.hex(' '):<32}  {text:<40}  {one.variant.string}  [{one.variant.iform}]"


def _decode(catalogue: Catalogue, text: str) -> list[str]:
    from xed_convert.encoding.decoder import Decoder, bytes_of  # noqa: PLC0415

    return [_line(data, one) for data, one in Decoder(catalogue).decode_all(bytes_of(text))]
