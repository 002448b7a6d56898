"""`uopscope db diff`: what changed between two databases, or how far two runs of one machine agree."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from results.database.diff import ChangeKind, compare, group, only_in_one
from runner.cli.database.common import (
    COMPARABLE,
    NOTHING_SHARED,
    Architecture,
    Database,
    check_outputs,
    percent,
)
from runner.cli.process import guard
from runner.cli.process.guard import UsageError
from runner.cli.support.own_code import written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from results.database.diff import Group
    from results.database.reader import Entry


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
    check_outputs(str(html or ""))
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

        with written(str(html)) as file:
            file.write(diff_page(old.name, new.name, groups).encode())
    if as_json:
        print(json.dumps([asdict(one) for one in groups], indent=1, ensure_ascii=False))
    else:
        _print_groups(groups, show)
        for line in _one_sided_lines(groups, old, new):
            print(line)
    changed = any(change.kind.is_change for change in changes)
    raise typer.Exit(guard.ExitCode.FAULT if changed else guard.ExitCode.DONE)


def _measured(entries: Iterable[Entry], arch: str) -> set[tuple[str, str]]:
    """Return the variants of entries by key, with the architectures that have results of them ("": any)."""
    return {(one.variant.key, name) for one in entries for name in one.results if arch in ("", name)}


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
