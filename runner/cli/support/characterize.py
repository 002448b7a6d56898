"""How `characterize` measures, once its options are read."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from inference.characterizer import Characterizer
from results.campaign.records import Outcome
from results.campaign.store import Store
from results.table import Footing, ResultRow, footing_lines, table_lines
from runner.backend import lacks_nothing
from runner.backends.registry import MachineChoice
from runner.campaigns.campaign import Campaign, Tally
from runner.campaigns.plan import NotSampled, make_plan
from runner.campaigns.start import CampaignSetup, on_machine
from runner.cli.process import guard, stop
from runner.cli.process.guard import UsageError
from runner.cli.support import output
from runner.cli.support.options import chosen
from runner.cli.support.own_code import shown_anyway
from runner.cli.support.progress import Reporter
from runner.explain import ExplainedVariant, explanation
from runner.measuring.recording import info_from_json
from runner.measuring.session import StoredOnly
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from results.campaign.records import Conclusion
    from results.model import Provenance
    from runner.backend import BackendInfo
    from runner.campaigns.parallel import ProcessPlan
    from runner.cli.support.options import CampaignOptions

TABLE_AT_MOST = 500
"""Variants. A larger campaign shows a summary; its results are in the files that were asked for."""


def run(options: CampaignOptions) -> int:
    """Do what the options say; return the exit code.

    Raises:
        UopscopeError: the options do not go together, an instruction is unknown, a backend or a file cannot be used.
    """
    catalogue = Catalogue.load()
    output.check_files(options.files)
    if options.reinfer:
        with _stored(catalogue, options) as setup:
            return _carry_out(setup, options)
    variants = chosen(catalogue, options)
    machine = MachineChoice(options.backend, options.machine, options.cpu, options.model)
    with on_machine(catalogue, variants, machine, options.database, reads_only=options.plan) as setup:
        return _plan(setup, options) if options.plan else _carry_out(setup, options)


@contextmanager
def _stored(catalogue: Catalogue, options: CampaignOptions) -> Iterator[CampaignSetup]:
    """Open a store whose samples take the place of a machine."""
    assert options.database is not None
    if not options.database.is_file():
        what = "not a file" if options.database.exists() else "no such file"
        raise UsageError(f"{options.database}: {what}", hint="--reinfer needs a campaign that was begun")
    with Store.open(options.database) as store:
        if not store.count_measurements():
            raise UsageError(
                f"{options.database}: holds no raw samples to draw conclusions from",
                hint="--reinfer needs the file that the campaign itself wrote",
            )
        provenance = store.begin_again()
        _check_same_machine(options, provenance)
        info = info_from_json(store.backend(), provenance)
        there = store.outcomes()
        variants = [variant for variant in chosen(catalogue, options) if variant.key in there]
        if not variants:
            raise UsageError(
                f"{options.database}: no conclusion about any variant that matches",
                hint="the same command without --reinfer measures them",
            )
        yield CampaignSetup(catalogue, variants, info, StoredOnly(info.calibration_core_cycles), store, lacks_nothing)


def _check_same_machine(options: CampaignOptions, stored: Provenance) -> None:
    """Refuse options that name another machine than that of the stored samples.

    Raises:
        UsageError: names the option.
    """
    backend = "" if options.backend == "auto" else options.backend
    named = (("--backend", backend, stored.backend), ("--arch", options.architecture, stored.architecture))
    for option, asked, there in named:
        if asked and asked.partition(":")[0].casefold() != there.partition(":")[0].casefold():
            raise UsageError(
                f"{option} {asked}: {options.database} has samples of {there}",
                hint=f"leave {option} out: --reinfer takes the machine from the file",
            )


def _carry_out(setup: CampaignSetup, options: CampaignOptions) -> int:
    """Run the campaign until it is done or stopped, then show the results."""
    method = _method(setup, options)
    campaign = Campaign(setup.store, setup.measurer, method, setup.lacks, _process_plan(setup.info, options))
    code: int = guard.ExitCode.DONE
    tally = Tally(len(setup.variants))
    with Reporter(len(setup.variants), options.database, setup.info.provenance) as reporter:
        try:
            for result in campaign.run(setup.variants, again=options.reinfer, on_change=reporter.update):
                reporter.note(result)
        except stop.Stopped as stopped:
            code = stopped.take()
        tally = reporter.tally or tally
        tally.lost_seconds = setup.measurer.lost_seconds
    outcomes = setup.outcomes()
    in_table = len(outcomes) <= TABLE_AT_MOST or not (options.database or options.files)
    # Those of a large campaign take seconds to read, and Ctrl-C should not wait for what nobody asked for
    conclusions = setup.conclusions() if in_table or options.files or options.explain else []
    with shown_anyway(_unwritten_hint(options)) as attempt:
        for kind, path in options.files.items():
            attempt(partial(output.write_file, kind, path, setup.variants, conclusions))
        if in_table:
            _show_table(setup, conclusions, tally, options)
        else:
            _show_summary(setup, tally, options)
        if options.explain:
            _explain(setup, conclusions, options)
        if tally.kept:
            _say_kept(tally)
        if code:
            _say_stopped(tally, options)
    if code:
        return code
    return guard.ExitCode.SOME_FAILED if Outcome.FAILED in outcomes.values() else guard.ExitCode.DONE


def _unwritten_hint(options: CampaignOptions) -> str:
    """Say what to do about a file that could not be written after the campaign."""
    if options.database:
        return f"{options.database} has all results: the same command writes the file, and measures nothing"
    return "the results were shown nevertheless; with --db FILE they would be kept"


def _method(setup: CampaignSetup, options: CampaignOptions) -> Characterizer:
    capabilities = setup.info.capabilities
    return Characterizer(setup.catalogue, capabilities, thorough=options.thorough, by_time=options.by_time)


def _process_plan(info: BackendInfo, options: CampaignOptions) -> ProcessPlan | None:
    """Return how to divide the campaign among processes (None: it runs in this one).

    Raises:
        UsageError: a real CPU is measured by one process.
    """
    if options.jobs == 1 or options.reinfer:
        return None
    from runner.campaigns.parallel import ProcessPlan  # noqa: PLC0415 - one process does without multiprocessing

    if not info.is_model:
        raise UsageError("--jobs is for simulated machines", hint="a real CPU is measured by one process at a time")
    return ProcessPlan(options.jobs, info.name, options.machine, options.thorough, options.model)


def _plan(setup: CampaignSetup, options: CampaignOptions) -> int:
    """Say what would be done."""
    method = _method(setup, options)
    not_sampled = NotSampled(options.thorough, method.searches_port_sets)
    quick = Characterizer(setup.catalogue, setup.info.capabilities)
    clock = time.process_time if setup.info.is_model else time.monotonic
    there = set(setup.store.outcomes())
    plan = make_plan(
        setup.variants, there, quick, setup.measurer, lacks=setup.lacks, clock=clock, not_sampled=not_sampled
    )
    for line in output.plan_lines(plan, setup.info.provenance, options.jobs):
        print(line)
    return guard.ExitCode.DONE


def _console(options: CampaignOptions) -> Console:
    return output.console(to_stderr=any(str(path) == "-" for path in options.files.values()))


def _show_table(
    setup: CampaignSetup, conclusions: Sequence[Conclusion], tally: Tally, options: CampaignOptions
) -> None:
    """Print the table, and what stands beneath it."""
    console = _console(options)
    by_key = {variant.key: variant for variant in setup.variants}
    rows = [ResultRow(each.result, by_key[each.result.key]) for each in conclusions]
    if any(not row.result.skipped for row in rows):
        for row in table_lines(rows, console.width):
            console.print(row, soft_wrap=True)
        console.print()
    footing = Footing(
        setup.info.provenance,
        unknown_reasons(setup.info, by_time=options.by_time),
        tally.seconds,
        tally.lost_seconds,
    )
    for line in footing_lines(rows, footing):
        console.print(line, soft_wrap=True)


def _show_summary(setup: CampaignSetup, tally: Tally, options: CampaignOptions) -> None:
    """Print how a campaign with too many variants for a table went."""
    console = _console(options)
    for line in output.summary_lines(tally, setup.info.provenance):
        console.print(line, soft_wrap=True)


def _explain(setup: CampaignSetup, conclusions: Sequence[Conclusion], options: CampaignOptions) -> None:
    """Print the microbenchmarks, samples and arithmetic behind each number."""
    console = _console(options)
    by_key = {variant.key: variant for variant in setup.variants}
    for each in conclusions:
        console.print()
        evidence = setup.store.evidence(each)
        variant = by_key[each.result.key]
        case = ExplainedVariant(each.result, variant, evidence, each.provenance, setup.info.calibration_core_cycles)
        for line in explanation(case):
            console.print(line, soft_wrap=True)


def unknown_reasons(info: BackendInfo, *, by_time: bool) -> tuple[str, ...]:
    """Say what a backend cannot know, and why."""
    counts_uops = any(name.startswith("uops") for name in info.counters)
    if info.ports and counts_uops:
        return ("no conclusion: see the failed checks",)
    if counts_uops:
        return (f"ports are unknown: the backend {info.name} has no counters for them",)
    return (
        f"µops are unknown: the backend {info.name} has no counters for them",
        "ports were inferred by time alone; where they are unknown, the failed checks say why"
        if by_time
        else "ports are unknown: --ports-by-time infers them by time alone, after about a minute of preparation",
    )


def _say_kept(tally: Tally) -> None:
    text = (
        f"{tally.kept} of {tally.total} variants keep their last conclusions: this version asks for measurements that"
        " are not stored; measure into a new file to have them"
    )
    Console(stderr=True).print(Text(text, style="yellow"), soft_wrap=True)


def _say_stopped(tally: Tally, options: CampaignOptions) -> None:
    console = Console(stderr=True)
    hint = "; the same command resumes it" if options.database else ""
    console.print(Text(f"stopped after {tally.done} of {tally.total} variants{hint}", style="yellow"), soft_wrap=True)
