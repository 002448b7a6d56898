"""Make the shipped database from a campaign: `python -m results.ship CAMPAIGN.sqlite [--caveat TEXT] [-o FOLDER]`.

It writes two packed files. `measured.ZEN4.jsonl.xz` is the campaign without its raw samples. `measured.xml.xz` is the
instructions.xml that `uopscope db build` makes of all shipped campaigns, one for each architecture.

- Raw samples, derivations and microbenchmarks are left out: packed samples take 1 to 2.5 KB per variant, tens of
  megabytes in all. So inference cannot be repeated on these files, and their provenance says so.
- Cycles are rounded to thousandths, except where that would change the XML: it is the same as that of the campaign.
- The throughput of unrolled code of a special form (`results.model.Form`) is left out if the loop of the same code
  contradicts it (`results.database.rules`).
"""

from __future__ import annotations

import argparse
import lzma
import sys
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from results.campaign import packed
from results.campaign.store import Store
from results.database.merge import Campaigns, Merge
from results.database.rules import is_dubious, numbers
from results.database.writer import write_database
from results.database.xml import measurement_attributes, rounded
from results.machine.constants import issue_width_of
from results.machine.facts import facts_of
from results.model import Throughput
from results.shipped import CAMPAIGN_NAMES, NAME, data_folder, shipped_campaigns
from results.whole_cycles import whole_cycles
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UopscopeError
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.campaign.records import Conclusion
    from results.database.reader import ArchitectureResult, Entry
    from results.model import Characterization, LatencyResult

MAXIMUM_BYTES = 2_000_000
"""The most bytes of a shipped file: it is part of the source tree."""

DENOMINATOR = 1000
"""Cycles are rounded to thousandths of a cycle: below every spread, and half as many bytes."""


class ShipError(UopscopeError):
    """A campaign that cannot be shipped, with the reason."""


def ship(campaign: Path, caveats: tuple[str, ...] = (), folder: Path | None = None) -> list[Path]:
    """Write a campaign, and the database of all shipped ones, into `folder` (the package's) and return their paths.

    The campaign replaces the one of its architecture that is there. The others stay.

    Raises:
        ShipError: the campaign is of a simulated machine, of several architectures, empty, or too large.
        StoreError: the campaign cannot be read.
    """
    target = folder or data_folder()
    with tempfile.TemporaryDirectory() as work:
        condensed, built = Path(work) / f"x{packed.SUFFIX}", Path(work) / "x.xml"
        condense(campaign, condensed, caveats)
        conclusions, database = target / CAMPAIGN_NAMES.format(architecture_of(condensed)), target / NAME
        build([condensed, *(path for path in shipped_campaigns(target) if path != conclusions)], built)
        _put(condensed.read_bytes(), conclusions)
        _put(lzma.compress(built.read_bytes(), preset=9 | lzma.PRESET_EXTREME), database)
    return [conclusions, database]


def condense(campaign: Path, target: Path, caveats: tuple[str, ...] = ()) -> None:
    """Write the newest conclusions of a campaign, rounded and without samples, to a packed file.

    Raises:
        ShipError: there is nothing in it that was measured.
    """
    with Store.read(campaign) as source:
        conclusions = list(source.conclusions())
        measured = [one for one in conclusions if not one.result.skipped]
        if not measured:
            raise ShipError(f"{campaign}: nothing was measured yet")
        if any(one.provenance.is_model for one in measured):
            raise ShipError(f"{campaign}: simulated; only what was measured is shipped")
        notes, backend = (*caveats, *_left_out(source, campaign)), source.backend()
        by_start: dict[str, list[Conclusion]] = {repr(one): [] for one in source.provenances()}
        for one in conclusions:
            by_start[repr(one.provenance)].append(replace(one, result=condensed_result(one.result)))
    with atomic_write(target) as file:
        packed.write(
            (
                (replace(first, caveats=(*first.caveats, *notes)), backend, found)
                for found in by_start.values()
                for first in [one.provenance for one in found[:1]]
            ),
            file,
        )


def _left_out(source: Store, path: Path) -> tuple[str, ...]:
    """Return the sentence about what is missing; a packed campaign was condensed before, and has it."""
    if path.name.endswith(packed.SUFFIX):
        return ()
    count = source.count_measurements()
    what = f"the raw samples of {count} measurements were left out, cycles rounded to 1/{DENOMINATOR}"
    return (f"conclusions only: {what}",)


def condensed_result(result: Characterization) -> Characterization:
    """Return a conclusion with rounded cycles, without references to experiments and without contradictions."""
    times = numbers(measurement_attributes(result))
    return replace(
        result,
        forms={
            form: replace(found, throughput=_throughput(found.throughput, dubious=is_dubious(times, form)))
            for form, found in result.forms.items()
        },
        latencies=tuple(map(_latency, result.latencies)),
        derivations=(),
    )


def _throughput(throughput: Throughput, *, dubious: bool) -> Throughput:
    """Round; if it is dubious leave out the time of unrolled code, whose instances waited for each other."""
    if dubious:
        throughput = replace(throughput, unrolled=None, unrolled_spread=None, unrolled_rhythms=())
    return Throughput(
        shorter(throughput.unrolled),
        shorter(throughput.loop),
        shorter(throughput.ports),
        shorter(throughput.unrolled_spread),
        shorter(throughput.loop_spread),
        tuple(map(_rounded, throughput.unrolled_rhythms)),
        tuple(map(_rounded, throughput.loop_rhythms)),
    )


def _latency(latency: LatencyResult) -> LatencyResult:
    short = replace(latency, cycles=_rounded(latency.cycles), spread=shorter(latency.spread), experiments=())
    return short if whole_cycles(short) == whole_cycles(latency) else replace(latency, experiments=())


def shorter(cycles: Fraction | None) -> Fraction | None:
    """Round to 1/1000, but to nothing that would be written differently with no or two decimals."""
    return None if cycles is None else _rounded(cycles)


def _rounded(cycles: Fraction) -> Fraction:
    """Round a number that is known."""
    short = Fraction(round(cycles * DENOMINATOR), DENOMINATOR)
    same = rounded(short) == rounded(cycles) and f"{float(short):.2f}" == f"{float(cycles):.2f}"
    return short if same and (short > 0) == (cycles > 0) else cycles


def architecture_of(campaign: Path) -> str:
    """Return the only architecture of a campaign.

    Raises:
        ShipError: there are several.
    """
    with Store.read(campaign) as source:
        names = sorted({one.architecture for one in source.provenances()})
    if len(names) > 1:
        raise ShipError(f"{campaign}: it has results of {', '.join(names)}; ship a campaign of each")
    return names[0]


def build(campaigns: Sequence[Path], target: Path) -> None:
    """Write the instructions.xml of some campaigns."""
    with Campaigns(list(campaigns)) as opened, atomic_write(target) as file:
        entries = map(with_possible_slots, Merge(Catalogue.load(), opened.lookup).entries())
        write_database(entries, opened.provenances(), file)


def with_possible_slots(entry: Entry) -> Entry:
    """Return an entry without issue slots for which the throughput leaves no time: older versions stated such."""
    return replace(entry, results={name: _with_possible_slots(name, one) for name, one in entry.results.items()})


def _with_possible_slots(architecture: str, result: ArchitectureResult) -> ArchitectureResult:
    values = result.measurement or {}
    facts, width = facts_of(result) if "issue_slots" in values else None, issue_width_of(architecture)
    if facts is None or width is None or facts.plain.possible_slots(width) is not None:
        return result
    return replace(result, measurement={name: text for name, text in values.items() if name != "issue_slots"})


def _put(data: bytes, target: Path) -> None:
    if len(data) > MAXIMUM_BYTES:
        raise ShipError(f"{target.name}: {len(data)} bytes, more than {MAXIMUM_BYTES}")
    with atomic_write(target) as file:
        file.write(data)


def main(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m results.ship", description="Make the shipped database.")
    parser.add_argument("campaign", type=Path, help="a campaign's .sqlite file")
    parser.add_argument("--caveat", action="append", default=[], help="a sentence that readers shall see")
    parser.add_argument("-o", "--output", type=Path, help="another folder than the package's")
    options = parser.parse_args(arguments)
    try:
        paths = ship(options.campaign, tuple(options.caveat), options.output)
    except UopscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for path in paths:
        sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
