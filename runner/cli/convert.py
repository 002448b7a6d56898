"""Convert XED's datafiles to the catalogue of instruction variants (instructions.xml)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.process.guard import UsageError
from runner.cli.support.own_code import write_text, written
from xed_convert.datafiles.layers import find_datafiles
from xed_convert.errors import ConversionError
from xed_convert.files import check_writable

if TYPE_CHECKING:
    from collections import Counter

    from xed_convert.catalogue.xml import WritesBytes
    from xed_convert.expansion.convert import Conversion

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def convert(
    folder: Annotated[
        Path | None, typer.Argument(metavar="XED", help="A datafiles folder or an XED checkout.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The file to write: .xml, .xml.gz, .xml.xz, .bin, - for stdout.",
            show_default="instructions.xml; with --xsd standard output",
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Include records that are left out on purpose, by their rule (`all`: all).",
        ),
    ] = None,
    layers: Annotated[
        Path | None, typer.Option(help="A file with the .cfg files in their order, one per line.")
    ] = None,
    *,
    fetch: Annotated[bool, typer.Option("--fetch", help="Clone XED's pinned version with git, once.")] = False,
    xsd: Annotated[bool, typer.Option("--xsd", help="Only write the schema of the files.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print the counts, nor progress.")] = False,
) -> None:
    """Convert XED's datafiles to the catalogue; print how many variants and records there are."""
    from xed_convert.catalogue.schema import schema_text  # noqa: PLC0415
    from xed_convert.datafiles.folder import Datafiles  # noqa: PLC0415 - `--help` does not need it
    from xed_convert.expansion.convert import convert as convert_datafiles  # noqa: PLC0415
    from xed_convert.garbage import without_collection  # noqa: PLC0415

    if xsd:
        write_text("-" if output is None else str(output), schema_text)
        return
    output = Path("instructions.xml") if output is None else output
    if str(output) != "-":
        _check_form(output)
        check_writable(output)
    datafolder = _source(folder, fetch=fetch, quiet=quiet)
    with without_collection():
        datafiles = Datafiles.load(datafolder, layers=_layers(layers))
        conversion = convert_datafiles(datafiles, include=frozenset(include or ()))
        source = f"Intel XED v{datafiles.version}" if datafiles.version else str(datafiles.folder)
        with written(str(output)) as file:
            _write(conversion, file, output, source)
    if not quiet:
        print("\n".join(_summary(conversion, source)), file=sys.stderr if str(output) == "-" else sys.stdout)


def _source(folder: Path | None, *, fetch: bool, quiet: bool) -> Path:
    """Return where the datafiles are."""
    if (folder is None) != fetch:
        raise ConversionError("give either a folder or --fetch", hint="for example: uopscope convert --fetch")
    return find_datafiles(_fetch(quiet=quiet) if folder is None else folder)


def _fetch(*, quiet: bool) -> Path:
    """Return the checkout of the pinned version; show the progress of the clone on standard error.

    If that is no terminal, only say that the clone begins.
    """
    from rich.console import Console  # noqa: PLC0415 - only a clone needs it
    from rich.text import Text  # noqa: PLC0415

    from xed_convert.datafiles import fetch  # noqa: PLC0415

    console = Console(stderr=True, highlight=False, quiet=quiet)
    if found := fetch.cached():
        return found
    if not console.is_terminal:
        console.print(Text(f"cloning XED {fetch.PINNED_TAG} with git"), soft_wrap=True)
        return fetch.fetch()
    with console.status(f"XED {fetch.PINNED_TAG}") as status:
        return fetch.fetch(progress=lambda text: status.update(Text(f"XED {fetch.PINNED_TAG}: {text}")))


def _layers(path: Path | None) -> list[str] | None:
    """Return the order of the layers that a file gives."""
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConversionError(f"{path}: cannot read the order of the layers: {error}") from error
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _check_form(output: Path) -> None:
    """Refuse a catalogue.bin under the name of a packed file: it is packed inside, and read in parts.

    Raises:
        UsageError: the name is such a one.
    """
    if output.suffix in {".gz", ".xz"} and Path(output.stem).suffix == ".bin":
        message = f"{output}: a .bin file is packed inside, and is not packed again"
        raise UsageError(message, hint=f"-o {output.with_suffix('')}, or FILE.xml{output.suffix}")


def _write(conversion: Conversion, file: WritesBytes, path: Path, source: str) -> None:
    """Write the catalogue in the format that the name asks for."""
    from xed_convert.catalogue.store import write_store  # noqa: PLC0415
    from xed_convert.catalogue.xml import write_xml  # noqa: PLC0415

    if path.suffix == ".bin":
        write_store(conversion.variants, file, source=source)
        return
    write_xml(conversion.variants, file, empty_extensions=conversion.extensions)


def _summary(conversion: Conversion, source: str) -> list[str]:
    """Return the lines of the summary: variants by extension, and records by what became of them."""
    variants = conversion.variants
    iforms = {variant.iform for variant in variants}
    counts = conversion.by_extension
    lines = [f"{source}: {len(variants)} variants, {len(iforms)} iforms, {len(conversion.extensions)} extensions", ""]
    columns = [f"{name} {counts[name]}" for name in sorted(conversion.extensions)]
    width = max(map(len, columns), default=1) + 2
    per_line = max(1, 110 // width)
    rows = [columns[start : start + per_line] for start in range(0, len(columns), per_line)]
    lines += ["".join(f"{text:{width}}" for text in row).rstrip() for row in rows]
    lines += ["", f"{conversion.records_used} records used", f"{conversion.not_64_bit} records for other modes only"]
    lines += _reasons("records left out", conversion.excluded)
    lines += _reasons("records left out for an operand size", conversion.excluded_sizes)
    return lines


def _reasons(title: str, counts: Counter[str]) -> list[str]:
    """Return a line per reason, the most frequent first."""
    return [f"{count} {title}: {reason}" for reason, count in sorted(counts.items(), key=lambda item: -item[1])]
