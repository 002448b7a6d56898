"""`uopscope db check`: the schema, and the rules that readers of a file need."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from results.campaign.packed import is_campaign
from results.database import rules
from results.database.merge import Campaigns, Merge
from results.database.reader import Repair, read_database
from results.database.writer import write_database
from runner.cli.database.common import SHOWN, Database
from runner.cli.process import guard
from xed_convert.catalogue.schema import validate
from xed_convert.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from results.database.rules import Violation


def check(
    database: Database,
    show: Annotated[int, typer.Option(min=0, help="How many violations of each rule to list.")] = SHOWN,
) -> None:
    """Check the schema, and the rules that readers of the file need; exit with 1 if one is broken.

    A part of the instruction set breaks none. A campaign is checked as the file that `db build` makes of it.
    """
    extent = rules.Extent()
    violations = _violations(database, extent)
    counts = Counter(violation.rule for violation in violations)
    shown: Counter[str] = Counter()
    for violation in violations:
        shown[violation.rule] += 1
        if shown[violation.rule] <= show:
            print(f"{violation.rule}: {violation.string} {violation.architecture}: {violation.what}")
    for rule, number in counts.items():
        needed = rules.needed_by(rule)
        print(f"{database}: {number} x {rule}" + (f", needed by {needed}" if needed else ""))
    for line in _extent_lines(extent):
        print(f"{database}: {line}")
    if not counts:
        print(f"{database}: every rule holds" + ("" if extent.results else ", but none about results was needed"))
    raise typer.Exit(guard.ExitCode.FAULT if violations else guard.ExitCode.DONE)


def _violations(database: Path, extent: rules.Extent) -> list[Violation]:
    """Return all violations in a file; tell `extent` what is in it."""
    repairs: list[Repair] = []
    with _as_xml(database) as path:
        violations = list(rules.check_entries(read_database(path, repairs), extent))
        violations += map(_as_violation, repairs)
        violations += _schema_violations(path)
    return violations


@contextmanager
def _as_xml(database: Path) -> Iterator[Path]:
    """Yield an instructions.xml as it is, and of a campaign the one that is made of it."""
    if not is_campaign(database):
        yield database
        return
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - slow to import

    with TemporaryDirectory() as folder, Campaigns([database]) as opened:
        path = Path(folder) / "instructions.xml"
        with path.open("wb") as file:
            write_database(Merge(Catalogue.load(), opened.lookup).entries(), opened.provenances(), file)
        yield path


def _extent_lines(extent: rules.Extent) -> Iterator[str]:
    """Say of how many variants there are results, and what a part lacks."""
    if not extent.results:
        yield f"{extent.variants} variants, and no result of any: it is a catalogue, and no database of measurements"
    for name, count in sorted(extent.results.items()):
        yield f"{name}: results of {count} of {extent.variants} variants"
    for name in extent.without_anchor:
        needed = f"uiCA needs the ports of {rules.ANCHOR_IFORM}, too"
        if name in extent.anchors:
            yield f"{name}: {needed}, and time alone does not tell them; counters do"
        else:
            adding = f"`characterize --instr {rules.ANCHOR_IFORM} --db CAMPAIGN` adds them"
            yield f"{name}: a part of the instruction set. {needed}: {adding}"


def _schema_violations(database: Path) -> list[Violation]:
    """Validate the file against the schema. It was read without a fault, so it is not hostile."""
    try:
        validate(database)
    except ConversionError as error:
        return [rules.Violation("schema", "", "", error.message)]
    return []


def _as_violation(repair: Repair) -> Violation:
    what = f'{repair.attribute}="{repair.value}" in line {repair.line} is {repair.reason}'
    return rules.Violation("sentinels", repair.string, repair.architecture, what)
