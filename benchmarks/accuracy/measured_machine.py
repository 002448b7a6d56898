"""Characterizes a machine out of measurements, and compares: `python -m benchmarks.accuracy.measured_machine FILE`.

    python -m benchmarks.accuracy.measured_machine HSW.xml.xz --every 40 --differences differences.tsv

A simulated machine does what the file says (`simulator.machines.measured`), so a characterization must give the file
back. The table says for each attribute how many variants have it, in how many it is the same, and why it is not
elsewhere. Reasons are rules over what was measured, never names of instructions; what no rule explains is `differs`.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from generator.operands.values import kinds_of
from generator.sequences.throughput import LENGTHS, ThroughputFactory
from inference.attributes.decoding import JUMPS, MOST_NOPS, measure_decoding
from inference.builder import ConclusionBuilder
from inference.characterizer import Characterizer
from inference.experiment import Want
from inference.port_usage import measure_prologues
from inference.throughput import Search
from results.database.xml import latency_attributes, measurement_attributes
from results.findings import BufferFull, DecoderGroups, Indistinguishable, NoPorts
from results.machine.file import read_machine
from results.model import Form, PortUsage
from results.ports import throughput_of
from runner.backends.sim import SimBackend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session, Task
from simulator.machines.measured import machine_of
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from inference.context import Context
    from inference.experiment import Procedure
    from results.machine.file import FileRow, MachineFile
    from results.model import Characterization
    from xed_convert.model import InstructionVariant

SAME, UNKNOWN, DIFFERS = "same", "not found out", "differs"
ATTRIBUTES = ("uops", "uops_retire_slots", "uops_MITE", "uops_MS", "complex_decoder", "available_simple_decoders")
"""Attributes that exist for each form."""

DECODERS = ("complex_decoder", "available_simple_decoders")

DEFAULTS = {"complex_decoder": "0"}
"""What it means that a file leaves an attribute out; in a special form it is as in the plain one."""

MERGED_BITS = (8, 16)
"""Bits of a store that the file's chain loads into a part of a register (see `results.machine.latencies`)."""

NEAR, NEAR_CYCLES = 0.05, 0.03
"""Throughputs agree within this share, or within this many cycles: published ones have two decimals."""


@dataclass
class OutcomeTable:
    """Outcomes by attribute, and what is different."""

    outcomes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    differences: list[tuple[str, str, str, str, str]] = field(default_factory=list)

    def note(self, string: str, name: str, outcome: str, ours: object, theirs: object) -> None:
        """Count an outcome; all but the same is listed."""
        self.outcomes[name][outcome] += 1
        if outcome != SAME:
            self.differences.append((string, name, outcome, str(ours), str(theirs)))


def compare(
    table: OutcomeTable, result: Characterization, row: FileRow, variant: InstructionVariant, *, decoding: bool = False
) -> None:
    """Compare the conclusions about a variant with what the file says of it; with `decoding`, attributes only."""
    assert row.result.measurement is not None
    ours, theirs = measurement_attributes(result), row.result.measurement
    for form in Form:
        for name in ATTRIBUTES:
            _compare_attribute(table, result, variant, name, form, theirs)
        if decoding:
            continue
        _compare_ports(table, result, form, theirs)
        _compare_throughput(table, result.string, form, ours, theirs)
    if decoding:
        return
    if "div_cycles" in theirs:
        found = ours.get("div_cycles")
        outcome = SAME if found == theirs["div_cycles"] else UNKNOWN if found is None else DIFFERS
        table.note(result.string, "div_cycles", outcome, found, theirs["div_cycles"])
    _compare_latencies(table, result, row, variant)


def _value(values: Mapping[str, str], name: str, form: Form) -> str | None:
    """Return an attribute of a form; where it is left out, it is as in the plain form, or the default."""
    return values.get(name + form.suffix, values.get(name, DEFAULTS.get(name)))


def _compare_attribute(
    table: OutcomeTable,
    result: Characterization,
    variant: InstructionVariant,
    name: str,
    form: Form,
    theirs: Mapping[str, str],
) -> None:
    if name + form.suffix not in theirs and not (form is Form.PLAIN and name in DEFAULTS):
        return
    ours, published, string = measurement_attributes(result), _value(theirs, name, form), result.string
    known = name in ours or f"{name}{form.suffix}" in ours
    if name == "available_simple_decoders" and _value(ours, "complex_decoder", form) == "0":
        known, found = "complex_decoder" in ours, None
    else:
        found = _value(ours, name, form) if known else None
    outcome = SAME if known and found == published else DIFFERS if known else UNKNOWN
    if outcome == UNKNOWN and name in DECODERS:
        outcome = _why_no_decoders(result, variant, form)
    if name == "uops" and outcome == DIFFERS and _ports_total(theirs, form) != int(published or 0):
        outcome = "the file's ports have another number of µops"
    table.note(string, name + form.suffix, outcome, found, published)


def _why_no_decoders(result: Characterization, variant: InstructionVariant, form: Form) -> str:
    """Say why it is not known which decoders take a form: by what was measured for it."""
    if variant.category in JUMPS:
        return "a jump, which ends a group of decoders anyhow"
    quantity = f"complex_decoder{form.suffix}"
    found = next((one.steps for one in result.derivations if one.quantity == quantity), ())
    if any(isinstance(one, BufferFull) for one in found):
        return "a chain that lasts as long fills the reorder buffer, too"
    groups = next((one for one in found if isinstance(one, DecoderGroups)), None)
    if groups is None:
        return f"it takes longer than {MOST_NOPS} NOPs"
    slots = result.attributes.get("uops_retire_slots", 0)
    if groups.times[0].cycles > Fraction(groups.times[0].nops + slots, groups.width) + 1:
        return "it takes more cycles than its slots, however many NOPs there are"
    return "its time steps neither as of the first decoder nor as of any"


def _ports_total(values: Mapping[str, str], form: Form) -> int:
    return PortUsage.parse(values.get(f"ports{form.suffix}", values.get("ports", ""))).total


def _compare_ports(table: OutcomeTable, result: Characterization, form: Form, theirs: Mapping[str, str]) -> None:
    published = theirs.get(f"ports{form.suffix}")
    if published is None and theirs.get(f"uops{form.suffix}") != "0":
        return
    usage, name = PortUsage.parse(published or ""), f"ports{form.suffix}"
    conclusion = result.forms.get(form, result.forms[Form.PLAIN])
    if conclusion.ports is None and form is Form.INDEXED:
        conclusion, form = result.forms[Form.PLAIN], Form.PLAIN  # the same load with an index: not inferred again
    failures = [one.why for one in result.failures if isinstance(one, NoPorts) and one.form is form]
    if form is Form.SAME_REGISTER and form not in result.forms and "uops_same_reg" in result.attributes:
        outcome = "a move to itself: µops are counted, ports not inferred"
    elif conclusion.ports is not None:
        outcome = SAME if conclusion.ports == usage else DIFFERS
    elif any(isinstance(one, Indistinguishable) and usage in one.usages for one in failures):
        outcome = "one of several that no measurement tells apart"
    elif failures:
        outcome = f"not stated: {type(failures[0]).__name__}"
    else:
        outcome = UNKNOWN
    table.note(result.string, name, outcome, conclusion.ports, usage)


def _compare_throughput(
    table: OutcomeTable, string: str, form: Form, ours: Mapping[str, str], theirs: Mapping[str, str]
) -> None:
    found, published = (_least(values, form) for values in (ours, theirs))
    if published is None:
        return
    table.note(string, f"TP{form.suffix}", _throughput_outcome(found, published, ours), found, published)


def _least(values: Mapping[str, str], form: Form) -> float | None:
    return min(
        (float(values[n]) for n in (f"TP_unrolled{form.suffix}", f"TP_loop{form.suffix}") if n in values), default=None
    )


def _compare_latencies(
    table: OutcomeTable, result: Characterization, row: FileRow, variant: InstructionVariant
) -> None:
    narrow = {o.index for o in variant.operands if o.kind is OperandKind.MEMORY and o.width_bits in MERGED_BITS}
    known = latency_attributes(result.latencies)
    merged = result.attributes.get("result_dependency")
    busy = result.ports is not None and throughput_of(result.ports) > 1
    for theirs in row.result.latencies:
        ours = known.get((theirs.start, theirs.target), {})
        to_memory = dict(row.shape).get(theirs.target) == OperandKind.MEMORY.value
        for name, text in theirs.values.items():
            if "cycles" not in name or name.endswith("_is_upper_bound"):
                continue
            outcome, found = _latency_outcome(name, int(text), ours)
            if outcome == UNKNOWN and theirs.start == theirs.target and merged is not None:
                outcome, found = SAME if merged == int(text) else DIFFERS, merged
            elif outcome == UNKNOWN and to_memory and "addr" in name:
                outcome = "from an address to what is stored there: not measured"
            elif outcome == DIFFERS and busy:
                outcome = "longer: its own µops delay each other on their ports"
            elif outcome == DIFFERS and theirs.target in narrow and found == {"": int(text) - 1}:
                outcome = "a cycle less: the file's chain has a load that merges what was stored"
            kind = "latency_same_reg" if name.endswith("_same_reg") else "latency"
            table.note(f"{result.string} {theirs.start}→{theirs.target}", kind, outcome, found, f"{name} {text}")


def _latency_outcome(name: str, cycles: int, ours: Mapping[str, str]) -> tuple[str, object]:
    """Say how a latency compares: our ranges are over flags and operand values."""
    stem = name.removeprefix("min_").removeprefix("max_")
    found = {end: int(ours[end + stem]) for end in ("", "min_", "max_") if end + stem in ours}
    if not found:
        return ("0: no dependency to measure" if cycles == 0 else UNKNOWN), None
    bounds = [end for end in found if f"{end}{stem}_is_upper_bound" in ours]
    exact = [value for end, value in found.items() if end not in bounds]
    if cycles in exact:
        return SAME, found
    if any(found[end] == cycles for end in bounds):
        return "the same number, as an upper bound", found
    if any(found[end] > cycles for end in bounds):
        return "a looser upper bound", found
    return DIFFERS, found


def characterized(
    file: MachineFile, catalogue: Catalogue, variants: Sequence[InstructionVariant], *, decoding: bool = False
) -> Iterator[tuple[Characterization, int]]:
    """Yield the conclusions about variants of a file's machine, and how many microbenchmarks each took.

    With `decoding`, only counts of µops and decoders are found out.
    """
    backend = SimBackend(machine_of(file), catalogue)
    characterizer = Characterizer(catalogue, backend.info().capabilities, thorough=len(variants) > 100)
    session = Session(Measurer(backend), limits=Limits(keep_raw=False))
    context = characterizer.prepared({}) if decoding else session.run_one(characterizer.prepare(variants))
    procedure = decoded if decoding else characterizer.characterize
    tasks = (Task(one.key, procedure(one, context)) for one in variants)
    for outcome in session.run(tasks):
        if outcome.result is not None:
            yield outcome.result, len(outcome.requests)
        else:
            print(f"! {outcome.name}: {outcome.error}")


def decoded(variant: InstructionVariant, context: Context) -> Procedure[Characterization]:
    """Count µops, and find out how a variant is decoded."""
    found = ConclusionBuilder(variant)
    search = Search(ThroughputFactory(context.instructions, variant), kinds_of(variant)[-1])
    yield from search.measure([search.shape(LENGTHS[0])], Want.ALL)
    found.failures += search.failures
    if search.unrolled:
        found.first = search.unrolled[0]
        found.prologues = yield from measure_prologues(search.factory)
        found.note_uops(search)
        yield from measure_decoding(found, context)
    return found.build()


def measurable(file: MachineFile, catalogue: Catalogue) -> list[InstructionVariant]:
    """Return the variants of a file that a simulated machine can be asked about."""
    skipped = Characterizer(catalogue, SimBackend(machine_of(file), catalogue).info().capabilities).skipped
    return [one for one in catalogue if file.row(one) is not None and not skipped(one)]


def lines_of(table: OutcomeTable) -> Iterator[str]:
    """Yield the table, one line per attribute and outcome."""
    for name, outcomes in table.outcomes.items():
        total = outcomes.total()
        for outcome, count in outcomes.most_common():
            yield f"{name}\t{outcome}\t{count}\t{count / total:.1%}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="an instructions.xml")
    parser.add_argument("--arch", default="", help="which architecture of it")
    parser.add_argument("--every", type=int, default=1, help="only every N-th variant")
    parser.add_argument("--offset", type=int, default=0, help="begin at this one")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="only these of them, by string")
    parser.add_argument("--decoding", action="store_true", help="only counts of µops and decoders")
    parser.add_argument("--differences", type=Path, help="where to write what differs (TSV)")
    options = parser.parse_args()
    catalogue = Catalogue.load()
    file = read_machine(options.file, options.arch)
    variants = measurable(file, catalogue)[options.offset :: options.every]
    if options.only:
        variants = [one for one in variants if any(fnmatchcase(one.string, pattern) for pattern in options.only)]
    begun, table, requests = time.process_time(), OutcomeTable(), 0
    by_key = {one.key: one for one in variants}
    for result, count in characterized(file, catalogue, variants, decoding=options.decoding):
        variant = by_key[result.key]
        row = file.row(variant)
        assert row is not None
        compare(table, result, row, variant, decoding=options.decoding)
        requests += count
    print("\n".join(lines_of(table)))
    seconds = time.process_time() - begun
    print(
        f"# {len(variants)} of {len(file)} variants, {requests / len(variants):.1f} microbenchmarks and "
        f"{1000 * seconds / len(variants):.0f} ms of CPU time each"
    )
    if options.differences:
        lines = ["\t".join(one) for one in sorted(table.differences, key=lambda one: one[1:3])]
        options.differences.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _throughput_outcome(found: float | None, published: float, ours: Mapping[str, str]) -> str:
    if found is None:
        return UNKNOWN
    if abs(found - published) <= max(NEAR * published, NEAR_CYCLES):
        return SAME
    if found > published and ours.get("complex_decoder") == "1" and found < published + 1:
        return "slower: one is decoded per cycle, where its µops are too dense for the µop cache"
    if found < published and published - found < 1:
        return "faster by less than a cycle, for which there is no unit of its own"
    return "slower" if found > published else "faster"


if __name__ == "__main__":
    main()
