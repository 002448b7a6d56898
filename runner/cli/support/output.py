"""Consoles and output files of the commands."""

from __future__ import annotations

import io
import json
import shutil
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from results import table
from results.campaign import codec
from results.processes import sensible_processes
from results.table import ResultRow
from results.text import duration_text, machine_text, taken_text
from runner.campaigns.plan import SEEN_ON
from runner.cli.support.own_code import written
from xed_convert.files import check_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from results.campaign.records import Conclusion
    from results.model import Provenance
    from runner.campaigns.campaign import Tally
    from runner.campaigns.plan import Plan
    from xed_convert.model import InstructionVariant

WIDE = 10_000
"""Columns where the output is no terminal: nothing is wrapped."""


def console(*, to_stderr: bool = False) -> Console:
    """Return a console on standard output, or on standard error where that one is taken."""
    file = sys.stderr if to_stderr else sys.stdout
    return Console(file=file, width=None if file.isatty() else WIDE, highlight=False)


def columns(rows: Sequence[Mapping[str, str]], usual: Sequence[str], keep: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a table with a header; where it is wider than the terminal, columns give way.

    Args:
        rows: a text for each column, by its name; all have the same names.
        usual: columns that may give way, the last one first.
        keep: columns that may not; no text is ever broken.
    """
    names = [name for name in rows[0] if name in keep or any(row[name] for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
    left_out: list[str] = []
    for name in reversed([one for one in usual if one in names and one not in keep]):
        if sum(widths[one] + 2 for one in names) - 2 > limit:
            names.remove(name)
            left_out.insert(0, name)
    for row in ({name: name for name in names}, *rows):
        yield "  ".join(f"{row[name]:{widths[name]}}" for name in names).rstrip()
    if left_out:
        yield f"(left out for lack of room: {', '.join(left_out)}; --csv has all)"


def check_files(files: Mapping[str, Path]) -> None:
    """Refuse output files that cannot be written, before hours are spent on measuring.

    Raises:
        OutputError: names the first such file.
    """
    for path in files.values():
        if str(path) != "-":
            check_writable(path)


def write_file(
    kind: str, path: Path, variants: Sequence[InstructionVariant], conclusions: Sequence[Conclusion]
) -> None:
    """Write conclusions in a format to a file, whole or not at all; `-` is standard output.

    Raises:
        OutputError: the file cannot be written.
    """
    data = FORMATS[kind](variants, conclusions)
    with written(str(path)) as file:
        file.write(data)


def xml_bytes(variants: Sequence[InstructionVariant], conclusions: Sequence[Conclusion]) -> bytes:
    """Return instructions.xml with those of the variants that were measured."""
    from results.database import merge, xml  # noqa: PLC0415 - a table on the screen does not need it

    known = {each.result.key for each in conclusions if not each.result.skipped}
    file = io.BytesIO()
    merge.write_xml(
        [variant for variant in variants if variant.key in known],
        [xml.ConcludedVariant(each.result, each.provenance) for each in conclusions],
        file,
    )
    return file.getvalue()


def json_bytes(variants: Sequence[InstructionVariant], conclusions: Sequence[Conclusion]) -> bytes:
    """Return all conclusions with provenance; cycles are integers or exact fractions as text ("5/4")."""
    del variants
    machines = [codec.encode_provenance(each.provenance) for each in conclusions]
    distinct = list({json.dumps(machine, sort_keys=True): machine for machine in machines}.values())
    results = [
        {
            "provenance": distinct.index(machine),
            "inference": each.inference,
            "time": each.time,
            **codec.encode_characterization(each.result),
        }
        for each, machine in zip(conclusions, machines, strict=True)
    ]
    document = {"provenance": distinct, "results": results}
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def csv_bytes(variants: Sequence[InstructionVariant], conclusions: Sequence[Conclusion]) -> bytes:
    """Return a line of CSV per variant."""
    by_key = {variant.key: variant for variant in variants}
    rows = [(ResultRow(each.result, by_key.get(each.result.key)), each.provenance) for each in conclusions]
    return table.write_csv(rows).encode()


FORMATS: dict[str, Callable[[Sequence[InstructionVariant], Sequence[Conclusion]], bytes]] = {
    "xml": xml_bytes,
    "json": json_bytes,
    "csv": csv_bytes,
}


def summary_lines(tally: Tally, provenance: Provenance) -> Iterator[Text]:
    """Yield what became of a campaign, by reason."""
    yield Text(machine_text(provenance))
    known = f", {tally.resumed} of them before" if tally.resumed else ""
    each = f" ({tally.measured / tally.concluded:.1f} per variant)" if tally.concluded else ""
    yield Text(f"{tally.done} of {tally.total} variants{known}, {tally.measured} microbenchmarks measured{each}")
    for outcome, count in sorted(tally.outcomes.items()):
        yield Text(f"  {count:6} {outcome.value}")
    for reason in tally.frequent_reasons():
        yield Text(f"  {reason.count:6} {reason.text}: {reason.names}", style="yellow")
    yield Text(f"in {taken_text(tally.seconds, tally.lost_seconds)}")


def plan_lines(plan: Plan, provenance: Provenance, jobs: int) -> Iterator[str]:
    """Yield a plan in words."""
    yield machine_text(provenance)
    yield f"{plan.total:8} variants"
    if plan.there:
        yield f"{plan.there:8} of them are done"
    yield f"{plan.possible:8} would be measured"
    for reason, count in plan.reasons.most_common():
        yield f"{count:8} left out: {reason}"
    if not plan.possible:
        return
    processes = sensible_processes(jobs, plan.possible)
    seconds = plan.expected_seconds(processes)
    if seconds is None:
        yield "how long it takes is not known: no variant of a sample was done in time"
        if plan.lost_seconds:
            yield f"other users of the core cost {duration_text(plan.lost_seconds)}: try again"
        return
    by_time = plan.expected_by_time(processes)
    yield (
        f"about {plan.expected_microbenchmarks} microbenchmarks, {duration_text(seconds)}"
        f"{' without ports' if by_time else ''}"
        f" (from {plan.sampled} variants that took {duration_text(plan.sample_seconds)})"
    )
    if plan.lost_seconds >= 1:
        lost = duration_text(plan.lost_seconds)
        yield f"on a quiet core, that is: in this sample other users of the core cost {lost} more"
    if by_time:
        yield f"with ports by time {' to '.join(map(duration_text, by_time))} (by what they added on {SEEN_ON})"
        yield _where_noisy()


def _where_noisy() -> str:
    from inference.ports.by_time.machine import TOO_NOISY  # noqa: PLC0415 - only for this line
    from inference.ports.by_time.orders import ORDERS  # noqa: PLC0415 - likewise

    share = f"{float(TOO_NOISY):.0%}"
    return (
        f"if times are off by more than {share}, ports take about {ORDERS} times as long: each code has {ORDERS} orders"
    )
