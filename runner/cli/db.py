"""Build, check, compare, search and export databases of results (instructions.xml)."""

from __future__ import annotations

import inspect
import json
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict
from fractions import Fraction
from functools import cache
from io import StringIO
from math import floor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Annotated

import typer

from results.campaign.packed import SUFFIXES as CAMPAIGNS
from results.campaign.packed import is_campaign
from results.database import rules
from results.database.cycles import AtMost
from results.database.diff import ChangeKind, compare, group, only_in_one
from results.database.memory_section import memory_sections, read_memories
from results.database.merge import Campaigns, Merge
from results.database.naming import naming_of
from results.database.query import VARIANT_FIELDS, Predicate, Query, all_fields, compile_query
from results.database.reader import Repair, read_database
from results.database.writer import write_database
from results.memory.documents import read_document
from results.text import machine_text
from runner.cli.process import guard
from runner.cli.process.guard import UsageError
from runner.cli.support import output as _output_of
from xed_convert.catalogue.schema import validate
from xed_convert.errors import ConversionError, UopscopeError
from xed_convert.files import check_writable, named_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from results.database.compare import Comparison
    from results.database.diff import Group
    from results.database.reader import ArchitectureResult, Entry
    from results.database.rules import Violation
    from results.memory.model import MemoryReport
    from xed_convert.model import InstructionVariant

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

Database = Annotated[Path, typer.Argument(help="An instructions.xml (plain, .gz or .xz) or a campaign's .sqlite file.")]
Architecture = Annotated[str, typer.Option("--arch", help="Only this architecture.")]
Memories = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="What `uopscope memory --json` wrote. May be repeated.")
]
Mode = Annotated[str, typer.Option(help="llvm-exegesis: latency, inverse_throughput or uops.")]
MOST_CYCLES = 1_000_000
"""No instruction takes longer."""
SHOWN = 20
"""How many of a kind are listed unless more are asked for."""


@app.command()
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
    _check_outputs(str(output))
    variants = list(Catalogue.load(catalogue))
    naming = naming_of(names)
    sections = memory_sections(read_document(path) for path in memory or ())
    with Campaigns(campaigns) as opened, _output(str(output)) as file:
        merged = Merge(variants, opened.lookup)
        provenances = opened.provenances()
        naming = naming.with_ports(opened.ports()) if names else naming
        write_database(naming.entries(merged.entries(), provenances), naming.provenances(provenances), file, sections)
        unknown = opened.unknown(variant.key for variant in variants)
    said = sys.stderr if str(output) == "-" else sys.stdout
    for line in _report_merge(merged, unknown, output):
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
    yield from _and_more(len(merged.disagreements), "disagreements")
    for key in unknown[:SHOWN]:
        yield f"not in the catalogue, left out: {key}"
    yield from _and_more(len(unknown), "variants that the catalogue lacks")
    yield f"{'standard output' if str(output) == '-' else output}: {len(merged)} variants"


def _and_more(count: int, what: str, shown: int = SHOWN) -> Iterator[str]:
    if count > shown:
        yield f"... {count} {what} in all"


@app.command()
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
        yield (
            f"{name}: a part of the instruction set. uiCA needs the ports of {rules.ANCHOR_IFORM}, too: "
            f"`characterize --instr {rules.ANCHOR_IFORM} --db CAMPAIGN` adds them"
        )


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


@app.command()
def diff(
    old: Database,
    new: Database,
    arch: Architecture = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page, too.")] = None,
    agreement: Annotated[
        bool,
        typer.Option(
            "--agreement", help="Two runs of one machine: the shares that agree within 5 %, and what does not."
        ),
    ] = False,
    show: Annotated[int, typer.Option(min=0, help="How many groups to list.")] = 100,
) -> None:
    """Say what changed between two databases; exit with 1 if anything but noise did."""
    from results.database.entries import (  # noqa: PLC0415 - `--help` does not need it
        architectures,
        as_named,
        entries_of,
    )

    if agreement:
        if as_json or html is not None:
            raise UsageError("--agreement prints text only", hint="leave --json and --html out")
        raise typer.Exit(_agreement(old, new, arch, show))
    _check_outputs(str(html or ""))
    before, after = (list(entries_of(path, arch)) for path in (old, new))
    names = architectures([*before, *after]) or architectures([*entries_of(old), *entries_of(new)])
    arch = as_named(arch, names)
    if arch and arch not in names:
        raise UsageError(f"no result of the architecture {arch!r}", hint=f"there are: {', '.join(names) or 'none'}")
    if not _measured(before, arch) & _measured(after, arch):
        raise UsageError(NOTHING_SHARED, hint=COMPARABLE)
    changes = compare(before, after, frozenset([arch] if arch else []))
    groups = group(changes)
    if html is not None:
        from results.site.pages import diff_page  # noqa: PLC0415 - jinja2 is slow to import

        with _output(str(html)) as file:
            file.write(diff_page(old.name, new.name, groups).encode())
    if as_json:
        print(json.dumps([asdict(one) for one in groups], indent=1, ensure_ascii=False))
    else:
        _print_groups(groups, show)
        for line in _one_sided_lines(groups, old, new):
            print(line)
    changed = any(change.kind.is_change for change in changes)
    raise typer.Exit(guard.ExitCode.FAULT if changed else guard.ExitCode.DONE)


NOTHING_SHARED, COMPARABLE = "no variant was measured in both", "compare two runs of the same architecture"


def _measured(entries: Iterable[Entry], arch: str) -> set[tuple[str, str]]:
    """Return the variants of entries by key, with the architectures that have results of them ("": any)."""
    return {(one.variant.key, name) for one in entries for name in one.results if arch in ("", name)}


def _agreement(first: Path, second: Path, arch: str, show: int) -> int:
    """Print how far two runs agree and where they do not; return 1 if a goal is missed."""
    from results.database.agreement import GOALS, TOLERANCE  # noqa: PLC0415 - only for this option
    from results.database.agreement import agreement as agreement_of  # noqa: PLC0415 - likewise
    from results.database.entries import entries_of_architecture  # noqa: PLC0415 - `--help` does not need it
    from results.database.port_names import OTHER  # noqa: PLC0415 - likewise

    (before, arch), (after, _) = entries_of_architecture(first, arch), entries_of_architecture(second, arch)
    found = agreement_of(before, after, arch)
    if not found.variants:
        raise UsageError(NOTHING_SHARED, hint=COMPARABLE)
    print(
        f"{found.variants} variants in both, {found.only['first']} only in {first.name}, "
        f"{found.only['second']} only in {second.name}"
    )
    for kind in sorted(found.compared, key=lambda name: (name not in GOALS, name)):
        share = found.share(kind)
        assert share is not None
        within = f"within {float(TOLERANCE):.0%}" if kind in GOALS else "equal"
        line = f"{kind}: {found.agreed[kind]} of {found.compared[kind]} values {within}: {percent(share)}"
        if kind in GOALS:
            line += f" (goal {float(GOALS[kind]):.0%}: {'missed' if kind in found.missed() else 'met'})"
        print(line)
    for name, names in found.names.items():
        other = ", ".join(f"{theirs} is {ours}" for theirs, ours in sorted(names.items()) if theirs != ours)
        if other:
            print(f"ports by time of {name} have other names in {second.name}: {other}")
        if any(ours.startswith(OTHER) for ours in names.values()):
            print(f"  {OTHER}: a port of {second.name} that is none of {first.name}")
    groups = found.groups()
    for (kind, extension, how), differences in groups[:show]:
        one = differences[0]
        example = f"{one.string} {one.name}: {one.first or '-'}, {one.second or '-'}"
        print(f"  {len(differences):6} {kind} of {extension} {how}, such as {example}")
    if len(groups) > show:
        print(f"  ... {len(groups)} groups in all")
    return guard.ExitCode.FAULT if found.missed() else guard.ExitCode.DONE


@app.command("compare")
def compare_with_published(
    published: Annotated[
        Path, typer.Argument(help="What others measured: a table (.csv) or an instructions.xml (plain, .gz or .xz).")
    ],
    campaign: Database,
    arch: Architecture = "",
    published_arch: Annotated[
        str, typer.Option(help="The architecture in the published instructions.xml, if it has another name there.")
    ] = "",
    percent: Annotated[
        float, typer.Option(min=0, max=100, help="Values agree within this many percent of the published one ...")
    ] = 10,
    cycles: Annotated[
        float, typer.Option(min=0, max=MOST_CYCLES, help="... throughputs also within this many cycles.")
    ] = 0.02,
    by: Annotated[
        str,
        typer.Option(
            help="What differences are grouped by: some of reason,direction,ratio,extension,operands,category."
        ),
    ] = "reason,direction,ratio,extension,operands,category",
    show: Annotated[int, typer.Option(min=0, help="How many groups, and how many of the worst, to list.")] = SHOWN,
    csv: Annotated[str, typer.Option(help="Write all differences as CSV to this file (- for standard output).")] = "",
    json_file: Annotated[
        str, typer.Option("--json", help="Write shares, groups and differences as JSON to this file (- likewise).")
    ] = "",
) -> None:
    """Compare a campaign with published measurements of the same CPU; exit with 1 if a goal is missed."""
    from results.database import compare as comparing  # noqa: PLC0415 - only for this command
    from results.database import published as others  # noqa: PLC0415 - only for this command
    from results.database.entries import entries_of_architecture  # noqa: PLC0415 - `--help` does not need it
    from results.exports.exporters import only_architecture  # noqa: PLC0415 - likewise

    fields = [name.strip() for name in by.split(",")]
    if unknown := [name for name in fields if name not in comparing.GROUPINGS]:
        raise UsageError(
            f"differences cannot be grouped by {unknown[0]!r}", hint=f"use {', '.join(comparing.GROUPINGS)}"
        )
    if campaign.suffix == ".csv":
        raise UsageError(f"{campaign}: a table, and no campaign", hint="the published table is the first argument")
    _check_outputs(csv, json_file)
    is_table = published.suffix == ".csv"
    if is_table and published_arch:
        raise UsageError("--published-arch is for an instructions.xml", hint=f"{published} is a table of one CPU")
    theirs: list[Entry] = []
    if not is_table:
        theirs, published_arch = entries_of_architecture(published, published_arch)
    entries, arch = entries_of_architecture(campaign, arch)
    name = arch or only_architecture(entries)
    theirs_name = "" if is_table else published_arch or _architecture_among(theirs, name)
    rows = others.read_published(published, theirs, theirs_name)
    tolerance = others.Tolerance(Fraction(str(percent)) / 100, Fraction(str(cycles)))
    of_one_cpu = theirs_name in {"", name}
    found = comparing.compare_published(rows, entries, tolerance, name, of_one_cpu=of_one_cpu)
    if not found.variants:
        raise UsageError(
            f"{campaign.name} has no result of {name} for any variant of {published.name}",
            hint="compare measurements of the same instructions",
        )
    for target, write in ((csv, _write_differences), (json_file, _write_comparison)):
        if target:
            with _output(target) as file:
                write(found, fields, file)
    if "-" not in {csv, json_file}:
        _print_machines([(published, theirs_name), (campaign, name)])
        _print_comparison(found, fields, show, (published.name, campaign.name))
    raise typer.Exit(guard.ExitCode.FAULT if found.missed() else guard.ExitCode.DONE)


def _architecture_among(entries: list[Entry], name: str) -> str:
    """Return that name if an entry has results of it, else the only architecture of the entries."""
    from results.exports.exporters import only_architecture  # noqa: PLC0415 - `--help` does not need it

    return name if any(name in entry.results for entry in entries) else only_architecture(entries)


def _print_machines(compared: Sequence[tuple[Path, str]]) -> None:
    """Print the CPU of each file ("": its architecture is not known), and whether the CPUs differ."""
    from results.database.entries import provenances_of  # noqa: PLC0415 - `--help` does not need it

    signatures: list[set[str]] = []
    for path, name in compared:
        said = [one for one in provenances_of(path) if one.architecture == name] if name else []
        texts = dict.fromkeys(map(machine_text, said)) or [name or "a table does not say of which CPU it is"]
        print(f"{path.name}: {'; '.join(texts)}")
        signatures.append({one.cpu_signature for one in said} - {""})
    names = sorted({name for _, name in compared})
    if "" not in names and len(names) > 1:
        print(f"these are different CPUs ({', '.join(names)}): differences are expected")
    elif all(signatures) and not set.intersection(*signatures):
        print("these are different CPUs of one architecture (by family, model or stepping): differences may be theirs")


def _print_comparison(found: Comparison, by: list[str], show: int, names: tuple[str, str]) -> None:
    """Print the shares that agree, the largest groups of differences, and the worst ones."""
    from results.database.compare import GOALS  # noqa: PLC0415 - only for this command

    print(f"{found.variants} variants of {names[0]} are in {names[1]}, {len(found.missing)} are not")
    for kind, goal in GOALS.items():
        share = found.share(kind)
        if share is None:
            print(f"{kind}: nothing to compare")
            continue
        print(
            f"{kind}: {found.agreed[kind]} of {found.compared[kind]} agree: {percent(share)} "
            f"(goal {float(goal):.1%}: {'missed' if kind in found.missed() else 'met'}), "
            f"{found.equal[kind]} are equal, {found.without[kind]} were not measured"
        )
        _print_reasons(found, kind)
    groups = found.groups(by)
    if groups:
        print(f"groups of differences, by {', '.join(by)}:")
    for (kind, *values), differences in groups[:show]:
        named = zip(by, values, strict=True)
        one = differences[0]
        example = f"{one.string} {one.name}".rstrip()
        where = ", ".join(value or {"operands": "no operands"}.get(name, "not explained") for name, value in named)
        print(f"  {len(differences):5} {kind}: {where}: {example}: published {one.published}, ours {one.measured}")
    for line in _and_more(len(groups), "groups", show):
        print(line)
    if found.differences:
        print("the worst:")
    for one in found.worst()[:show]:
        print(f"  {one.kind} of {one.string} {one.name}".rstrip() + f": published {one.published}, ours {one.measured}")
    for line in _and_more(len(found.differences), "differences", show):
        print(line)


def percent(share: Fraction) -> str:
    """Write a share, rounded down: what is below a goal does not look like it, and 100.00% means all."""
    return f"{floor(share * 10_000) / 100:.2f}%"


def _print_reasons(found: Comparison, kind: str) -> None:
    """Print how many differences each rule explains, and how many none does."""
    from results.database.reasons import TEXTS  # noqa: PLC0415 - only for this command

    counts = found.explained(kind)
    for name, text in TEXTS.items():
        if counts[name]:
            print(f"  {counts[name]:5} {name}: {text}")
    left = found.compared[kind] - found.agreed[kind] - counts.total()
    if left:
        print(f"  {left:5} that no rule explains")
    if counts:
        print(f"  {percent(found.share_known(kind))} agree or are explained")


def _write_differences(found: Comparison, _by: list[str], file: IO[bytes]) -> None:
    from csv import DictWriter  # noqa: PLC0415 - only for this command

    from results.database.compare import FIELDS  # noqa: PLC0415 - only for this command

    text = StringIO()
    writer = DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in found.worst())
    file.write(text.getvalue().encode())


def _write_comparison(found: Comparison, by: list[str], file: IO[bytes]) -> None:
    from results.database.compare import GOALS  # noqa: PLC0415 - only for this command

    document = {
        "variants": found.variants,
        "missing": found.missing,
        "kinds": {
            kind: {
                "compared": found.compared[kind],
                "agreed": found.agreed[kind],
                "equal": found.equal[kind],
                "explained": dict(found.explained(kind)),
                "not_measured": found.without[kind],
                "goal": float(goal),
                "goal_is_met": kind not in found.missed(),
            }
            for kind, goal in GOALS.items()
        },
        "groups": [
            {"kind": kind, **dict(zip(by, values, strict=True)), "strings": [one.string for one in differences]}
            for (kind, *values), differences in found.groups(by)
        ],
        "differences": [asdict(one) for one in found.worst()],
    }
    file.write(json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n")


def _one_sided_lines(groups: list[Group], old: Path, new: Path) -> Iterator[str]:
    """Say how many variants only one of two files has results of, which is no change."""
    for kind, name in ((ChangeKind.ONLY_OLD, old.name), (ChangeKind.ONLY_NEW, new.name)):
        if found := only_in_one(groups, kind):
            yield f"only in {name}: {len(found)} results, such as {found[0]} (--json lists them)"


def _print_groups(groups: list[Group], show: int) -> None:
    real = [one for one in groups if one.kind.is_change]
    for one in real[:show]:
        count = len(one.strings)
        where = (
            one.strings[0] if count == 1 else f"{count} variants of {one.isa_set} ({', '.join(one.strings[:3])} ...)"
        )
        values = {ChangeKind.NEW: one.new, ChangeKind.GONE: one.old}.get(one.kind, f"{one.old} → {one.new}")
        print(f"{one.architecture} {one.kind.value}: {one.attribute} {values}: {where}")
    if len(real) > show:
        print(f"... {len(real)} groups of changes in all")
    noise = sum(len(one.strings) for one in groups if one.kind is ChangeKind.NOISE)
    print(
        f"{sum(len(one.strings) for one in real)} changes in {len(real)} groups, {noise} differences within the spread"
    )


@app.command()
def query(
    text: Annotated[
        str, typer.Argument(metavar="QUERY", help="For example: ports has p5 and latency(1,1) > 3", show_default=False)
    ] = "",
    database: Annotated[Path | None, typer.Option("--db", help="A database instead of the shipped one.")] = None,
    arch: Architecture = "",
    csv: Annotated[str, typer.Option(help="Write CSV to this file (- for standard output).")] = "",
    *,
    fields: Annotated[bool, typer.Option("--fields", help="List all fields that a query can ask about.")] = False,
) -> None:
    """List the variants that fulfil a query, with the values that it asks about."""
    from results.database.entries import (  # noqa: PLC0415 - `--help` does not need it
        architectures,
        entries_of_architecture,
    )
    from results.shipped import shipped_database  # noqa: PLC0415 - only where no file is named

    if fields and (text or csv):
        raise UsageError("--fields goes without a query and --csv", hint="it lists what a query can ask about")
    if not fields and not text.strip():
        raise UsageError(
            "no query", hint='for example "ports uses p5 and TP < 1"; --fields lists what can be asked about'
        )
    wanted = None if fields else compile_query(text)
    _check_outputs(csv)
    entries, _ = entries_of_architecture(database if database is not None else shipped_database(), arch)
    if wanted is None:
        _print_fields(entries)
        return
    wanted.check({name for entry in entries for name in _attributes(entry)})
    found = list(_selected(entries, wanted))
    if csv:
        with _output(csv) as file:
            _write_found(found, wanted, file)
        return
    rows = [_row(wanted, entry, result) for entry in found for result in entry.results.values()]
    if rows:
        for line in _output_of.columns(rows, list(COLUMNS), keep=[*COLUMNS[:2], *wanted.fields]):
            print(line)
    measured = architectures(entries)
    if not measured:
        print("nothing found: no variant has a result")
        return
    print(f"{len(rows)} found" if rows else f"nothing found among results of {', '.join(measured)}")
    if rows:
        return
    there = [(entry, result) for entry in entries for result in entry.results.values()]
    for line in filter(None, (one.alternatives(there) for one in wanted.conditions)):
        print(line)
    if wanted.names_port_sets:
        print("`has` finds exactly this set of ports, and `uses` every set with these ports: ports uses p5")


def _print_fields(entries: Iterable[Entry]) -> None:
    """Print a line for each field: how many results have it, and one of its values."""
    counts: Counter[str] = Counter()
    values: dict[str, str] = {}
    for entry in entries:
        variant = entry.variant
        of_variant = {name: str(getattr(variant, name)) for name in VARIANT_FIELDS} | dict(variant.attributes)
        for result in entry.results.values():
            found = of_variant | dict(result.measurement or {})
            counts.update(found.keys())
            values = found | values
    known = {name: f"{count} results, such as {values[name]}" for name, count in counts.items()}
    rows = [{"field": name, "what": text} for name, text in all_fields(known).items()]
    for line in _output_of.columns(rows, (), keep=("field", "what")):
        print(line)


COLUMNS = ("string", "architecture", "uops", "ports", "TP_unrolled", "TP_loop", "TP_ports")
"""Columns beside the fields of a query; the last ones give way on a narrow terminal."""


def _attributes(entry: Entry) -> Iterator[str]:
    """Yield the names of all attributes of an instruction and its measurements."""
    yield from entry.variant.attributes
    for result in entry.results.values():
        yield from result.measurement or {}


def _row(wanted: Query, entry: Entry, result: ArchitectureResult) -> dict[str, str]:
    """Return what is shown of a result: the fields of the query, then the usual columns. Models are called models."""
    from results.database.entries import is_model  # noqa: PLC0415 - likewise

    values = result.measurement or {}
    model = " (model)" if is_model(values) else ""
    row = {"string": entry.variant.string, "architecture": result.architecture + model}
    asked = {name: field(entry, result) for name, field in wanted.fields.items() if name not in _ARCHITECTURE}
    row |= {name: _text(value) for name, value in asked.items()}
    return row | {name: values.get(name, "") for name in COLUMNS if name not in row}


_ARCHITECTURE = ("arch", "architecture")


def _text(value: str | float | None) -> str:
    """Write a field's value, an upper bound as such."""
    if isinstance(value, AtMost):
        return f"≤{value:g}"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else value


def _write_found(found: Iterable[Entry], wanted: Query, file: IO[bytes]) -> None:
    """Write the variants that were found as CSV: all that is known, and a column per computed value of the query."""
    from results.exports.tidy import tables  # noqa: PLC0415 - `--help` does not need it
    from results.rows import Rows  # noqa: PLC0415 - likewise

    entries = list(found)
    known = tables(entries).variants
    asked = [
        {name: _text(field(entry, result)) for name, field in wanted.fields.items() if name not in known.columns}
        for entry in entries
        for result in entry.results.values()
    ]
    rows = Rows.of([{**row, **computed} for row, computed in zip(known, asked, strict=True)], known.columns)
    file.write(rows.to_csv().encode())


def _selected(entries: Iterable[Entry], wanted: Predicate) -> Iterator[Entry]:
    """Yield entries with only those of their results that are wanted."""
    from results.database.reader import Entry as DatabaseEntry  # noqa: PLC0415 - only for its constructor

    for entry in entries:
        results = {name: result for name, result in entry.results.items() if wanted(entry, result)}
        if results:
            yield DatabaseEntry(entry.variant, results)


def export(
    database: Path, arch: str = "", mode: str = "latency", memory: list[Path] | None = None, **targets: str
) -> None:
    """Write a database in other forms (- for standard output); no upper bound is a value in any of them."""
    from results.database.entries import entries_of_architecture  # noqa: PLC0415 - `--help` does not need it
    from results.exports.exporters import ExportRequest, exporters  # noqa: PLC0415 - likewise

    wanted = {name: target for name, target in targets.items() if target}
    if not wanted:
        options = ", ".join(f"--{option}" for option in exporters())
        raise UsageError("nothing to write", hint=f"name one of {options}")
    _check_outputs(*wanted.values())
    given = [read_document(path) for path in memory or ()]
    entries, arch = entries_of_architecture(database, arch)
    _check_memories(given, memory or [], arch)
    memories = (*given, *_known_memories(database))
    request = ExportRequest(tuple(entries), arch, mode, _sample_code, memories)
    for option, exporter in exporters().items():
        if target := wanted.get(option.replace("-", "_")):
            with _output(target) as file:
                said = exporter.export(request, file)
            if said:
                print(f"{'standard output' if target == '-' else target}: {said}", file=sys.stderr)


def _check_memories(given: Sequence[MemoryReport], files: Sequence[Path], arch: str) -> None:
    """Refuse what is about memory of another architecture than the one that is exported ("": any)."""
    for report, path in zip(given, files, strict=True):
        found = report.provenance.architecture
        if arch not in ("", found):
            raise UsageError(f"--memory {path}: it is about {found}, not {arch}", hint=f"--arch {found}")


def _known_memories(database: Path) -> Iterator[MemoryReport]:
    """Yield what is known of memory: from the database itself, and what is shipped with it."""
    from results.shipped import is_shipped, shipped_memories  # noqa: PLC0415 - likewise

    if not is_campaign(database):
        yield from read_memories(database)
    if is_shipped(database):
        yield from map(read_document, shipped_memories())


def _with_options_of_exporters() -> Callable[..., None]:
    """Return `export` with an option for each exporter that there is."""
    from results.exports.exporters import exporters  # noqa: PLC0415 - likewise

    kinds: dict[str, object] = {"database": Database, "arch": Architecture, "mode": Mode, "memory": Memories}
    kinds |= {
        option.replace("-", "_"): Annotated[str, typer.Option(f"--{option}", metavar="FILE", help=one.help)]
        for option, one in exporters().items()
    }
    defaults: dict[str, object] = {"database": inspect.Parameter.empty, "mode": "latency", "memory": None}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name, ""), annotation=kind)
        for name, kind in kinds.items()
    ]
    export.__annotations__ = {**kinds, "return": None}
    export.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what typer looks at
    return export


app.command()(_with_options_of_exporters())


def _sample_code(variant: InstructionVariant) -> bytes | None:
    """Return the bytes of an instruction of a variant, or None if it cannot be encoded."""
    from generator.assemble import assemble  # noqa: PLC0415 - only for this export
    from generator.operands.allocation import Allocator  # noqa: PLC0415 - only for this export

    try:
        return assemble(Allocator().instance(_with_encoding(variant))).code
    except UopscopeError:
        return None


def _with_encoding(variant: InstructionVariant) -> InstructionVariant:
    """Return the shipped catalogue's variant where a published file does not say how it is encoded."""
    return variant if variant.encoding else _by_string().get(variant.string, variant)


@cache
def _by_string() -> dict[str, InstructionVariant]:
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - slow to import

    return {variant.string: variant for variant in Catalogue.load()}


def _check_outputs(*targets: str) -> None:
    """Refuse files that cannot be written, before databases are read. Those without a name and `-` are left out.

    Raises:
        OutputError: names the first such file.
    """
    for target in targets:
        if target not in {"", "-"}:
            check_writable(target)


@contextmanager
def _output(target: str) -> Iterator[IO[bytes]]:
    """Open a file that appears when it is whole, compressed if its name says so, or standard output."""
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with named_write(target) as file:
        yield file
