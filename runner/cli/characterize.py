"""Measure latency, throughput and port usage of instructions."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer looks at the annotations
from typing import Annotated, NoReturn

import typer

from runner.cli.process import guard
from xed_convert.garbage import collect_seldom

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

SELECT, MACHINE, OUTPUT = "What", "On what", "Output"


@app.command(
    epilog="Examples: characterize --arch-auto --instr ADC_GPRv_GPRv; characterize --backend sim --arch HSW --instr ADC"
    " --explain; characterize --extension SSE2 --db sse2.sqlite; characterize --all --db campaign.sqlite"
)
def characterize(
    named: Annotated[
        list[str] | None, typer.Argument(metavar="[PATTERN]...", help="The same as --instr PATTERN.")
    ] = None,
    instr: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help='An iform (ADC_GPRv_GPRv_11) or its stem, a string ("ADC_11 (R64, R64)") or its first part, an iclass '
            "(ADC), or a glob. May be repeated.",
            rich_help_panel=SELECT,
        ),
    ] = None,
    *,
    extension: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only instructions of this extension (BASE, SSE2, AVX512EVEX, or a glob). May be repeated.",
            rich_help_panel=SELECT,
        ),
    ] = None,
    isa_set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only instructions of this ISA set (I86, AVX512F_512, or a glob). May be repeated.",
            rich_help_panel=SELECT,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All instructions of the catalogue.", rich_help_panel=SELECT)
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="Only list the selected variants.", rich_help_panel=SELECT)
    ] = False,
    plan: Annotated[
        bool,
        typer.Option(help="Only say what would be measured, and how long it would take.", rich_help_panel=SELECT),
    ] = False,
    arch_auto: Annotated[
        bool, typer.Option("--arch-auto", help="The CPU at hand (the default).", rich_help_panel=MACHINE)
    ] = False,
    arch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A microarchitecture, such as SKL.", rich_help_panel=MACHINE),
    ] = None,
    backend: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How to measure: auto takes the best for the real CPU; sim simulates the one that --arch names;"
            " `uopscope doctor` lists all.",
            rich_help_panel=MACHINE,
        ),
    ] = "auto",
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Simulate the machine of an instructions.xml or a campaign (--backend sim); --arch chooses one.",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    hide_counters: Annotated[
        bool,
        typer.Option(
            "--hide-counters",
            help="Read only time from a simulated machine, as on a CPU without performance counters.",
            rich_help_panel=MACHINE,
        ),
    ] = False,
    ports_by_time: Annotated[
        bool | None,
        typer.Option(
            "--ports-by-time/--no-ports-by-time",
            help="Infer ports by time alone where nothing counts them (default: for --all and whole extensions).",
            rich_help_panel=MACHINE,
            show_default=False,
        ),
    ] = None,
    cpu: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The logical CPU to measure on.", rich_help_panel=MACHINE)
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Processes, for simulated machines; at most one per CPU.",
            rich_help_panel=MACHINE,
        ),
    ] = 1,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each number came about.", rich_help_panel=OUTPUT)
    ] = False,
    xml: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write instructions.xml (- is standard output).", rich_help_panel=OUTPUT),
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JSON.", rich_help_panel=OUTPUT)] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write CSV.", rich_help_panel=OUTPUT)] = None,
    db: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep raw samples and conclusions there; a stopped campaign is resumed.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    reinfer: Annotated[
        bool,
        typer.Option("--reinfer", help="Draw conclusions again from the samples in --db.", rich_help_panel=OUTPUT),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Only say which version this is.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Measure latency per operand pair, throughput and port usage of x86 instructions."""
    if version:
        from results.version import version as version_text  # noqa: PLC0415 - likewise

        print(version_text())
        return
    from runner.campaigns.selection import Selection  # noqa: PLC0415 - likewise
    from runner.cli.support.options import CampaignOptions, check, chosen, listing_lines  # noqa: PLC0415 - `--help` does not need it
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - likewise

    options = CampaignOptions(
        patterns=(*(named or ()), *(instr or ())),
        selection=Selection(tuple(extension or ()), tuple(isa_set or ())),
        everything=everything,
        listing=listing,
        plan=plan,
        automatic=arch_auto,
        architecture=arch,
        backend=backend,
        model=model,
        hide_counters=hide_counters,
        cpu=cpu,
        jobs=jobs,
        ports_by_time=ports_by_time,
        explain=explain,
        files={kind: path for kind, path in (("xml", xml), ("json", json), ("csv", csv)) if path},
        database=db,
        reinfer=reinfer,
    )
    check(options)
    if options.listing:
        for line in listing_lines(chosen(Catalogue.load(), options)):
            print(line)
        return
    from runner.cli.support import characterize  # noqa: PLC0415 - a list and wrong options do not need what measures

    raise typer.Exit(characterize.run(options))


def main() -> NoReturn:
    """Run `characterize ...`; never returns."""
    collect_seldom()
    guard.run(app, program="characterize")


if __name__ == "__main__":
    main()
