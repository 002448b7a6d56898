"""Show, list and compare instruction variants of the catalogue."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.process.guard import UsageError
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xed_convert.model import InstructionVariant

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)

CatalogueOption = Annotated[
    Path | None, typer.Option("--catalogue", metavar="FILE", help="Another catalogue than the shipped one.")
]


@app.command()
def show(
    patterns: Annotated[list[str], typer.Argument(metavar="PATTERN...", help="String, iform, stem, iclass or glob.")],
    catalogue: CatalogueOption = None,
) -> None:
    """Show variants with their operands, flags and encodings, and an example of each."""
    from xed_convert.catalogue.describe import describe  # noqa: PLC0415 - `--help` does not need it

    known = Catalogue.load(catalogue)
    blocks = [[*describe(v), *_sample(v)] for pattern in patterns for v in known.find(pattern)]
    print("\n\n".join("\n".join(block) for block in blocks))


def _sample(variant: InstructionVariant) -> list[str]:
    """Return lines with an instance of the variant as bytes and text."""
    from generator.operands.allocation import Allocator  # noqa: PLC0415
    from xed_convert.assembly.formatting import format_instance  # noqa: PLC0415
    from xed_convert.encoding.encoder import encode  # noqa: PLC0415

    try:
        values = Allocator().instance(variant).values
        return ["  for example", f"    {encode(variant, values).hex(' ')}    {format_instance(variant, values)}"]
    except UopscopeError as error:
        return [f"  no example: {error.message}"]


@app.command("list")
def list_variants(
    patterns: Annotated[list[str] | None, typer.Argument(metavar="[PATTERN]...", help="As for `show`.")] = None,
    cpu: Annotated[
        str, typer.Option(metavar="native|NAME", help="Only what that CPU has: this machine's, SKL, SPR, HASWELL ...")
    ] = "",
    catalogue: CatalogueOption = None,
    *,
    chips: Annotated[bool, typer.Option("--chips", help="List the names for --cpu.")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Only the number of variants of each extension.")] = False,
) -> None:
    """List variants: string, iform, ISA set."""
    if chips:
        print("\n".join(_chip_lines()))
        return
    known = Catalogue.load(catalogue)
    variants: Iterable[InstructionVariant] = known
    if patterns:
        variants = {v.string: v for pattern in patterns for v in known.find(pattern)}.values()
    from runner.host.isa_sets import test_of  # noqa: PLC0415 - `--help` and `show` do not need it

    has = test_of(cpu)
    found = [variant for variant in variants if has(variant)]
    if cpu and not found:
        raise UsageError(f"{cpu} has none of these variants", hint="leave out --cpu to list them")
    print("\n".join(_count_lines(found) if counts else _variant_lines(found)))


def _variant_lines(variants: list[InstructionVariant]) -> list[str]:
    """Return a line for each variant."""
    width = max((len(variant.string) for variant in variants), default=0)
    iforms = max((len(variant.iform) for variant in variants), default=0)
    return [f"{variant.string:{width}}  {variant.iform:{iforms}}  {variant.isa_set}" for variant in variants]


def _count_lines(variants: list[InstructionVariant]) -> list[str]:
    """Return a line for each extension, and one with the sum."""
    counts = Counter(variant.extension for variant in variants)
    return [*(f"{count:6} {name}" for name, count in sorted(counts.items())), f"{len(variants):6} in all"]


def _chip_lines() -> list[str]:
    """Return the names of chips."""
    from xed_convert.cpus.chips import shipped_chips, short_names  # noqa: PLC0415

    short: dict[str, list[str]] = {}
    for name, chip in short_names().items():
        short.setdefault(chip, []).append(name)
    return [f"{chip:22}{' '.join(short.get(chip, []))}".rstrip() for chip in shipped_chips()]


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(help="A catalogue: instructions.xml, also .gz and .xz, or .bin.")],
    new: Annotated[Path, typer.Argument(help="The catalogue to compare with it.")],
    limit: Annotated[int, typer.Option(min=0, help="How many of each kind to list (0: all).")] = 50,
) -> None:
    """Show what NEW brings: variants that were added, removed, renamed, changed."""
    from xed_convert.catalogue.diff import diff_catalogues  # noqa: PLC0415

    found = diff_catalogues(Catalogue.load(old), Catalogue.load(new))
    _section("added", [f"{v.string}  {v.isa_set}" for v in found.added], limit)
    _section("removed", [f"{v.string}  {v.isa_set}" for v in found.removed], limit)
    _section("renamed", [_renaming(one, other) for one, other in found.renamed], limit)
    _section("changed", [f"{v.string}: {'; '.join(texts)}" for v, texts in found.changed], limit)


def _renaming(old: InstructionVariant, new: InstructionVariant) -> str:
    """Write a variant's old and new string, and its iform and key where they changed too."""
    if old.string != new.string:
        return f"{old.string} -> {new.string}"
    names = ("iform", old.iform, new.iform) if old.iform != new.iform else ("key", old.key, new.key)
    return f"{old.string}: {names[0]} {names[1]} -> {names[2]}"


def _section(title: str, lines: list[str], limit: int) -> None:
    """Print a kind of difference."""
    print(f"{title}: {len(lines)}")
    shown = lines[:limit] if limit else lines
    print("".join(f"  {line}\n" for line in shown), end="")
    if len(shown) < len(lines):
        print(f"  ... and {len(lines) - len(shown)} more")
