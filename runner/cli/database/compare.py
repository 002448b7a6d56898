"""`uopscope db compare`: a campaign beside published measurements of the same CPU."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from io import StringIO
from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import IO, TYPE_CHECKING, Annotated

import typer

from results.text import machine_text
from runner.cli.database.common import SHOWN, Architecture, Database, and_more, check_outputs, percent
from runner.cli.process import guard
from runner.cli.process.guard import UsageError
from runner.cli.support.own_code import written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.database.comparison.compare import Comparison
    from results.database.reader import Entry

MOST_CYCLES = 1_000_000
"""No instruction takes longer."""


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
    from results.database.comparison import compare as comparing  # noqa: PLC0415 - only for this command
    from results.database.comparison import published as others  # noqa: PLC0415 - only for this command
    from results.database.entries import entries_of_architecture  # noqa: PLC0415 - `--help` does not need it
    from results.exports.exporters import only_architecture  # noqa: PLC0415 - likewise

    fields = [name.strip() for name in by.split(",")]
    if unknown := [name for name in fields if name not in comparing.GROUPINGS]:
        raise UsageError(
            f"differences cannot be grouped by {unknown[0]!r}", hint=f"use {', '.join(comparing.GROUPINGS)}"
        )
    if campaign.suffix == ".csv":
        raise UsageError(f"{campaign}: a table, and no campaign", hint="the published table is the first argument")
    check_outputs(csv, json_file)
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
            with written(target) as file:
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
    from results.database.comparison.compare import GOALS  # noqa: PLC0415 - only for this command

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
    _print_ports(found, show)
    groups = found.groups(by)
    if groups:
        print(f"groups of differences, by {', '.join(by)}:")
    for (kind, *values), differences in groups[:show]:
        named = zip(by, values, strict=True)
        one = differences[0]
        example = f"{one.string} {one.name}".rstrip()
        where = ", ".join(value or {"operands": "no operands"}.get(name, "not explained") for name, value in named)
        print(f"  {len(differences):5} {kind}: {where}: {example}: published {one.published}, ours {one.measured}")
    for line in and_more(len(groups), "groups", show):
        print(line)
    if found.differences:
        print("the worst:")
    for one in found.worst()[:show]:
        print(f"  {one.kind} of {one.string} {one.name}".rstrip() + f": published {one.published}, ours {one.measured}")
    for line in and_more(len(found.differences), "differences", show):
        print(line)


def _print_reasons(found: Comparison, kind: str) -> None:
    """Print how many differences each rule explains, and how many none does."""
    from results.database.comparison.reasons import TEXTS  # noqa: PLC0415 - only for this command

    counts = found.explained(kind)
    for name, text in TEXTS.items():
        if counts[name]:
            print(f"  {counts[name]:5} {name}: {text}")
    left = found.compared[kind] - found.agreed[kind] - counts.total()
    if left:
        print(f"  {left:5} that no rule explains")
    if counts:
        print(f"  {percent(found.share_known(kind))} agree or are explained")


def _print_ports(found: Comparison, show: int) -> None:
    """Print how port usages are beside the published ones, and those that contradict these."""
    from results.database.comparison.ports import PortAgreement  # noqa: PLC0415 - only for this command
    from results.model import port_set_name  # noqa: PLC0415 - likewise

    total = found.ports.total()
    if not total:
        print("ports: nothing to compare: none are published, or no port has the same name in both files")
        return
    print(f"ports: of {total} variants a usage of {port_set_name(found.port_names)} is published")
    for one in PortAgreement:
        if found.ports[one]:
            print(f"  {found.ports[one]:5} {one}: {percent(Fraction(found.ports[one], total))}")
    for string, published, measured in found.port_differences[:show]:
        print(f"  {string}: published {published}, ours {measured}")
    for line in and_more(len(found.port_differences), "other port usages", show):
        print(line)


def _write_differences(found: Comparison, _by: list[str], file: IO[bytes]) -> None:
    from csv import DictWriter  # noqa: PLC0415 - only for this command

    from results.database.comparison.compare import FIELDS  # noqa: PLC0415 - only for this command

    text = StringIO()
    writer = DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in found.worst())
    file.write(text.getvalue().encode())


def _write_comparison(found: Comparison, by: list[str], file: IO[bytes]) -> None:
    from results.database.comparison.compare import GOALS  # noqa: PLC0415 - only for this command
    from results.database.comparison.ports import PortAgreement  # noqa: PLC0415 - likewise

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
        "ports": {
            "compared": found.ports.total(),
            "names": sorted(found.port_names),
            **{one.name.lower(): found.ports[one] for one in PortAgreement},
            "differences": [one._asdict() for one in found.port_differences],
        },
        "groups": [
            {"kind": kind, **dict(zip(by, values, strict=True)), "strings": [one.string for one in differences]}
            for (kind, *values), differences in found.groups(by)
        ],
        "differences": [asdict(one) for one in found.worst()],
    }
    file.write(json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n")
