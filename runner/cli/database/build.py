"""`uopscope db build`: campaigns into one instructions.xml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from results.campaign.packed import SUFFIXES as CAMPAIGNS
from results.database.memory_section import memory_sections
from results.database.merge import Campaigns, Merge
from results.database.naming import naming_of
from results.database.writer import write_database
from results.memory.documents import read_document
from runner.cli.database.common import SHOWN, Memories, and_more, check_outputs
from runner.cli.process.guard import UsageError
from runner.cli.support.own_code import written

if TYPE_CHECKING:
    from collections.abc import Iterator


def build(
    campaigns: Annotated[list[Path], typer.Argument(help="Campaign files (.sqlite), in any order.")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="The instructions.xml to write: .xml, .xml.gz, .xml.xz, - for stdout."),
    ],
    catalogue: Annotated[Path | None, typer.Option(help="A catalogue instead of the shipped one.")] = None,
    names: Annotated[
        str,
        typer.Option(metavar="VERSION", help="Write the names of an older XED: 2024.11.04, which uiCA and OSACA know."),
    ] = "",
    memory: Memories = None,
) -> None:
    """Put campaigns into one instructions.xml; say which results were chosen over others."""
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - slow to import

    _check_form(output)
    check_outputs(str(output))
    variants = list(Catalogue.load(catalogue))
    naming = naming_of(names)
    sections = memory_sections(read_document(path) for path in memory or ())
    with Campaigns(campaigns) as opened, written(str(output)) as file:
        merged = Merge(variants, opened.lookup)
        provenances = opened.provenances()
        naming = naming.with_ports(opened.ports()) if names else naming
        write_database(naming.entries(merged.entries(), provenances), naming.provenances(provenances), file, sections)
        unknown = opened.unknown(variant.key for variant in variants)
    said = sys.stderr if str(output) == "-" else sys.stdout
    for line in (*(f"{name}: {what}" for name, what in naming.left_out()), *_report_merge(merged, unknown, output)):
        print(line, file=said)


def _check_form(output: Path) -> None:
    """Refuse names of other forms than XML: readers go by the name.

    Raises:
        UsageError: says what writes that form.
    """
    from results.exports.exporters import exporters  # noqa: PLC0415 - likewise

    name = output.name.removesuffix(".gz").removesuffix(".xz")
    form = Path(name).suffix.removeprefix(".")
    if form in exporters():
        raise UsageError(f"{output}: `db build` writes XML", hint=f"uopscope db export CAMPAIGN --{form} {output}")
    if output.name.endswith(CAMPAIGNS):
        raise UsageError(f"{output}: `db build` writes XML, and campaigns are called like this", hint="-o FILE.xml")


def _report_merge(merged: Merge, unknown: list[str], output: Path) -> Iterator[str]:
    for name, count in sorted(merged.counts.items()):
        yield f"{name}: {count} variants"
    for one in merged.disagreements[:SHOWN]:
        change = one.change
        yield (
            f"disagreement: {change.architecture} {change.string} {change.attribute}: "
            f"{change.new} ({one.winner}) was taken, not {change.old} ({one.loser})"
        )
    yield from and_more(len(merged.disagreements), "disagreements")
    for key in unknown[:SHOWN]:
        yield f"not in the catalogue, left out: {key}"
    yield from and_more(len(unknown), "variants that the catalogue lacks")
    yield f"{'standard output' if str(output) == '-' else output}: {len(merged)} variants"
