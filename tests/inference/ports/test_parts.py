"""Parts of sets that only what computes on a load has, on made-up cores whose mixes take as long as ports allow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.factory import InstructionFactory
from generator.sequences.blocking import CodeKind
from generator.sequences.filler import SlotFiller
from generator.sequences.throughput import SequenceShape, ThroughputFactory
from inference.characterizer import Characterizer
from inference.experiment import Measured
from inference.ports.blocking_instructions import Candidate
from inference.ports.by_time.hypotheses import components
from inference.ports.by_time.infer import infer_by_time
from inference.ports.by_time.machine import Discovery, KnownPart, TimedMachine, TimedSet
from inference.ports.by_time.mixes import MixFactory
from inference.ports.by_time.parts.beside import _PartSearch, told_of_parts
from inference.ports.by_time.parts.known import alike_parts, find_parts, memory_forms
from inference.ports.by_time.timed_probe import TimedProbe
from inference.ports.infer import PortConclusion
from results import sentences
from results.findings import Indistinguishable, PartsCompared, Unplaced
from results.machine.file import read_machine
from results.model import PortUsage, Status
from results.ports import throughput_of
from results.shipped import shipped_database
from runner.backends.sim import SimBackend
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from simulator.machines.measured import machine_of
from tests.inference.ports.test_by_time import driven
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from inference.experiment import Request
    from xed_convert.model import InstructionVariant

WIDTH = 6
ALONE = {
    "ANDN (R64, R64, R64)": "1*p0123",
    "POPCNT (R64, R64)": "1*p0123",
    "RORX (R64, R64, I8)": "1*p01",
    "SARX (R64, R64, R64)": "1*p01",
    "CMOVZ (R64, R64)": "1*p23",
    "SETZ (R8l)": "1*p23",
    "MOV (R64, M64)": "1*p456",
    "MOV (R32, M32)": "1*p456",
}
"""Instructions that show the sets. Ports 0 and 1, 2 and 3, and those of loads, are alike."""

EXAMPLE = "ANDN (R64, R64, M64)"
SUBJECT = "SUB (R64, M64)"


@dataclass
class LinearCore:
    """Times by the linear program of ports and issue slots, and by so much more beside `RORX`."""

    catalogue: Catalogue
    usages: Mapping[str, str]
    beside_rorx: Mapping[str, Fraction]

    def measured(self, request: Request) -> Measured:
        lines = request.benchmark.body
        names = Counter(self.catalogue.by_key(line.key).string for line in lines if line.key)
        uops = Counter[frozenset[str]]()
        for name, count in names.items():
            for ports, each in PortUsage.parse(self.usages.get(name, "")).uops.items():
                uops[ports] += each * count
        longer = max((self.beside_rorx.get(name, Fraction(1)) for name in names if "RORX" in "".join(names)), default=1)
        cycles = max(throughput_of(PortUsage(dict(uops))), Fraction(len(lines), WIDTH)) * longer
        return Measured(request, Status.OK, {"core_cycles": cycles}, {}, None)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def core_of(catalogue: Catalogue, loading: Mapping[str, str], longer: Fraction = Fraction(1)) -> LinearCore:
    return LinearCore(catalogue, {**ALONE, **loading}, {SUBJECT: longer})


def searched(catalogue: Catalogue, core: LinearCore, alone: Iterable[str] = ALONE) -> TimedMachine:
    instructions = InstructionFactory(catalogue)
    variants = [catalogue.by_string(string) for string in alone]
    candidates = [Candidate(one, ThroughputFactory(instructions, one).sequence(SequenceShape(12))) for one in variants]
    mixes = MixFactory(instructions)
    machine = driven(Discovery(mixes).run([candidates]), core.measured)
    assert isinstance(machine, TimedMachine)
    parts = driven(find_parts(machine, mixes), core.measured)
    assert isinstance(parts, tuple)
    return replace(machine, parts=parts)


def told(
    catalogue: Catalogue,
    core: LinearCore,
    machine: TimedMachine,
    string: str = SUBJECT,
    made_by: type[MixFactory] = MixFactory,
) -> PortConclusion:
    usage = PortUsage.parse(core.usages[string])
    variant = catalogue.by_string(string)
    mixes = made_by(InstructionFactory(catalogue))
    found = driven(infer_by_time(machine, mixes, variant, throughput_of(usage)), core.measured)
    assert isinstance(found, PortConclusion)
    return found


def shape(machine: TimedMachine, usage: PortUsage) -> dict[str, int]:
    """Return how many ports of p01, p23 and p456 the only µops of a usage have."""
    groups = {
        name: machine.public(one.ports)
        for name in ("p01", "p23", "p456")
        for one in machine.sets
        if ALONE[one.members[0]] == f"1*{name}"
    }
    used = frozenset[str]().union(*usage.uops)
    return {name: len(used & ports) for name, ports in groups.items()}


def test_a_part_is_stated_that_only_what_computes_on_a_load_has(catalogue: Catalogue) -> None:
    core = core_of(catalogue, {EXAMPLE: "1*p012+1*p456", SUBJECT: "1*p012+1*p456"})
    machine = searched(catalogue, core)
    (part,) = machine.parts
    assert (part.example.string, len(part.whole), len(part.part)) == (EXAMPLE, 4, 3)
    found = told(catalogue, core, machine)
    assert found.usage is not None
    assert found.failure is None
    assert shape(machine, found.usage) == {"p01": 2, "p23": 1, "p456": 3}
    assert found.usage == part.usage


@pytest.mark.parametrize("missing", "0123")
def test_each_port_may_be_the_missing_one(catalogue: Catalogue, missing: str) -> None:
    usage = f"1*p{'0123'.replace(missing, '')}+1*p456"
    core = core_of(catalogue, {EXAMPLE: usage, SUBJECT: usage})
    machine = searched(catalogue, core)
    found = told(catalogue, core, machine)
    assert found.usage is not None
    pairs = {"p01": 1 if missing in "01" else 2, "p23": 1 if missing in "23" else 2}
    assert shape(machine, found.usage) == {**pairs, "p456": 3}


def test_another_part_of_as_many_ports_is_told_from_the_example(catalogue: Catalogue) -> None:
    core = core_of(catalogue, {EXAMPLE: "1*p012+1*p456", SUBJECT: "1*p013+1*p456"})
    machine = searched(catalogue, core)
    found = told(catalogue, core, machine)
    assert found.usage is not None
    assert shape(machine, found.usage) == {"p01": 2, "p23": 1, "p456": 3}
    assert found.usage != machine.parts[0].usage
    last = [step for step in found.steps if isinstance(step, PartsCompared)][-1]
    assert f"and 3 x {EXAMPLE}:" in sentences.step(last)


def test_a_second_set_does_not_decide_once_more_which_of_alike_ports_are_meant(catalogue: Catalogue) -> None:
    # ANDN from memory lacks p3, POPCNT p2: both parts would be named as if they lacked the same one
    other = "POPCNT (R64, M64)"
    alone = ALONE | {"POPCNT (R64, R64)": "1*p2345", "PDEP (R64, R64, R64)": "1*p45"}
    alone |= {"MOV (R64, M64)": "1*p678", "MOV (R32, M32)": "1*p678"}
    core = LinearCore(catalogue, {**alone, EXAMPLE: "1*p012+1*p678", other: "1*p345+1*p678"}, {})
    machine = searched(catalogue, core, alone)
    assert sorted(len(one.ports) for one in machine.sets) == [2, 2, 2, 3, 4, 4]
    assert [one.example.string for one in machine.parts] == [EXAMPLE]
    found = told(catalogue, core, machine, other)
    assert isinstance(found.failure, Indistinguishable)
    assert [len(next(ports for ports in one.uops if len(ports) == 3)) for one in found.failure.usages] == [3, 3]


def test_usages_of_sets_that_instructions_show_are_no_parts(catalogue: Catalogue) -> None:
    machine = searched(catalogue, core_of(catalogue, {EXAMPLE: "1*p0123+1*p456"}))
    whole, *pairs = (machine.public(one.ports) for one in machine.sets if ALONE[one.members[0]] != "1*p456")
    whole, *pairs = sorted((whole, *pairs), key=len, reverse=True)
    parts = [PortUsage({ports: 1}) for ports in (frozenset(sorted(whole)[:3]), frozenset(sorted(whole)[1:]))]
    shown = [PortUsage({ports: 1}) for ports in some(pairs, 2)]
    found = [PortConclusion(None, Indistinguishable(tuple(usages)), (), ()) for usages in (parts, shown)]
    assert [len(alike_parts(machine, whole, one)[1]) for one in found] == [2, 0]


class WithoutCmov(MixFactory):
    """Makes no mixes of CMOVZ, as if there were too few registers."""

    def possible(
        self, wanted: Sequence[tuple[Sequence[tuple[InstructionVariant, int]], InstructionVariant | None]]
    ) -> list[Request]:
        names = {variant.iclass for parts, _ in wanted for variant, _ in parts}
        return [] if "CMOVZ" in names else super().possible(wanted)


def test_a_mix_that_cannot_be_made_does_not_keep_others_from_telling(catalogue: Catalogue) -> None:
    core = core_of(catalogue, {EXAMPLE: "1*p012+1*p456", SUBJECT: "1*p012+1*p456"})
    machine = searched(catalogue, core)
    found = told(catalogue, core, machine, made_by=WithoutCmov)
    assert found.usage is not None
    assert shape(machine, found.usage) == {"p01": 2, "p23": 1, "p456": 3}


def test_without_an_example_all_alike_parts_are_named(catalogue: Catalogue) -> None:
    core = core_of(catalogue, {EXAMPLE: "1*p012+1*p456", SUBJECT: "1*p012+1*p456"})
    machine = replace(searched(catalogue, core), parts=())
    found = told(catalogue, core, machine)
    assert found.usage is None
    assert isinstance(found.failure, Indistinguishable)
    assert [shape(machine, one) for one in some(found.failure.usages, 2)] == [{"p01": 2, "p23": 1, "p456": 3}] * 2


def test_the_whole_set_stays_where_no_mix_is_slow(catalogue: Catalogue) -> None:
    core = core_of(catalogue, {EXAMPLE: "1*p0123+1*p456", SUBJECT: "1*p0123+1*p456"})
    machine = searched(catalogue, core)
    assert machine.parts == ()
    found = told(catalogue, core, machine)
    assert found.usage is not None
    assert shape(machine, found.usage) == {"p01": 2, "p23": 2, "p456": 3}
    compared = [step for step in found.steps if isinstance(step, PartsCompared)]
    assert {step.beside[0].string for step in some(compared, 2)} == {"CMOVZ (R64, R64)", "RORX (R64, R64, I8)"}


def probe_of(
    catalogue: Catalogue,
    sets: Mapping[str, str],
    subject: str,
    cycles: Fraction = Fraction(1, 3),
    names: Mapping[str, str] | None = None,
) -> TimedProbe:
    """Return what is known of a subject where these instructions block sets of these ports."""
    blockers = [(frozenset(ports), catalogue.by_string(name)) for ports, name in sets.items()]
    timed = tuple(TimedSet(ports, (one.string,), dict.fromkeys(CodeKind, one)) for ports, one in blockers)
    machine = TimedMachine(WIDTH, SlotFiller("NOP"), Fraction(1, 100), timed, names or {})
    return TimedProbe(machine, catalogue.by_string(subject), cycles, components(one.ports for one in timed))


GENERAL = {"0123": "ANDN (R64, R64, R64)", "01": "RORX (R64, R64, I8)", "23": "CMOVZ (R64, R64)"}
VECTORS = {"0123": "VPADDD (XMM, XMM, XMM)", "01": "VPAVGB (XMM, XMM, XMM)", "23": "VPSADBW (XMM, XMM, XMM)"}


@pytest.mark.parametrize(
    ("shown_by", "cycles", "chain", "slots", "mixes"),
    [
        ("BEXTR (R64, R64, R64)", Fraction(1, 3), 0, 1, 2),
        # It waits for a carry that RORX and CMOVZ leave unchanged, and BEXTR does not
        ("RORX (R64, R64, I8)", Fraction(1, 3), 1, 1, 0),
        ("BEXTR (R64, R64, R64)", Fraction(1, 3), 1, 1, 1),
        # It is not pipelined; or six of it are issued in six cycles, and the blocking instructions in one
        ("BEXTR (R64, R64, R64)", Fraction(1), 0, 1, 0),
        ("BEXTR (R64, R64, R64)", Fraction(1, 3), 0, 6, 0),
    ],
)
def test_mixes_that_wait_for_something_else_are_not_timed(
    catalogue: Catalogue, shown_by: str, cycles: Fraction, chain: int, slots: int, mixes: int
) -> None:
    subject = "ADC_11 (R64, R64)"
    probe = probe_of(catalogue, GENERAL | {"01": shown_by}, subject, cycles)
    probe.chain, probe.most_slots = Fraction(chain), slots
    core = LinearCore(catalogue, {name: f"1*p{ports}" for ports, name in GENERAL.items()}, {})
    core = replace(core, usages={**core.usages, shown_by: "1*p01", subject: "1*p0123"})
    before = PortConclusion(PortUsage.parse("1*r0123"), None, (), ())
    after = driven(told_of_parts(probe, MixFactory(InstructionFactory(catalogue)), before), core.measured)
    assert isinstance(after, PortConclusion)
    assert (len(after.experiments), after.usage) == (2 * mixes, before.usage)


def test_a_mix_in_which_the_whole_set_takes_as_long_is_not_slow(catalogue: Catalogue) -> None:
    core = core_of(catalogue, {SUBJECT: "1*p0123+1*p456"}, longer=Fraction(4, 3))
    machine = searched(catalogue, core_of(catalogue, {}))
    whole = next(one.members for one in machine.sets if ALONE[one.members[0]] == "1*p0123")
    core = replace(core, beside_rorx={SUBJECT: Fraction(4, 3), **dict.fromkeys(whole, Fraction(4, 3))})
    found = told(catalogue, core, machine)
    assert found.usage is not None
    assert shape(machine, found.usage) == {"p01": 2, "p23": 2, "p456": 3}


@pytest.mark.parametrize(("subject", "counts"), [("VPADDD (YMM, YMM, YMM)", {1, 2}), ("VPADDD (ZMM, ZMM, ZMM)", {2})])
def test_both_halves_of_512_bits_have_a_part_or_none(catalogue: Catalogue, subject: str, counts: set[int]) -> None:
    probe = probe_of(catalogue, VECTORS, subject, Fraction(1))
    usage = PortUsage.parse("2*r0123")
    search = _PartSearch(probe, MixFactory(InstructionFactory(catalogue)), usage)
    usages = [one for candidate in search.candidates for one in candidate.usages]
    assert {2 - one.uops.get(frozenset({"r0", "r1", "r2", "r3"}), 0) for one in usages} == counts


@pytest.mark.parametrize(
    ("names", "alike"), [({}, [2, 2]), ({"2": "FP2", "3": "FP3"}, [1, 1, 2]), ({"2": "FP2"}, [1, 1, 2])]
)
def test_ports_with_published_names_are_not_alike(
    catalogue: Catalogue, names: Mapping[str, str], alike: list[int]
) -> None:
    probe = probe_of(catalogue, VECTORS, "VPADDD (YMM, YMM, M256)", names=names)
    usage = PortUsage({probe.machine.public(frozenset("0123")): 1})
    search = _PartSearch(probe, MixFactory(InstructionFactory(catalogue)), usage)
    assert sorted(len(one.usages) for one in search.candidates) == alike


def test_time_that_no_part_explains_names_the_whole_set_and_its_parts(catalogue: Catalogue) -> None:
    core = core_of(catalogue, {SUBJECT: "1*p0123+1*p456"}, longer=Fraction(3, 2))
    machine = searched(catalogue, core)
    assert machine.parts == ()
    found = told(catalogue, core, machine)
    assert found.usage is None
    assert not isinstance(found.failure, Unplaced)


def test_forms_that_read_memory_are_those_with_the_same_registers_else(catalogue: Catalogue) -> None:
    instructions = InstructionFactory(catalogue)
    for member, forms in some(
        {
            "ANDN (R64, R64, R64)": ["ANDN (R64, R64, M64)"],
            "RORX (R64, R64, I8)": ["RORX (R64, M64, I8)"],
            "VPADDD (YMM, YMM, YMM)": ["VPADDD (YMM, YMM, M256)"],
            "MOV (R64, M64)": [],
            "KMOVD (K, K)": [],
        }.items(),
        5,
    ):
        assert [one.string for one in memory_forms(member, instructions)] == forms


def test_a_comparison_says_what_each_usage_allows(catalogue: Catalogue) -> None:
    core = core_of(catalogue, {EXAMPLE: "1*p012+1*p456", SUBJECT: "1*p012+1*p456"})
    machine = searched(catalogue, core)
    assert isinstance(machine.parts[0], KnownPart)
    texts = [sentences.step(one) for one in told(catalogue, core, machine).steps if isinstance(one, PartsCompared)]
    beside = next(one for one in texts if "6 x RORX" in one)
    assert beside.startswith(
        "6 instances beside 6 x RORX (R64, R64, I8): 4.00 cycles; 1*r0123+1*r456 allows 3.00, 1*r0"
    )
    assert beside.endswith(" allows 4.00")


LOADING = ("CMP (R64, M64)", "SUB (R64, M64)")


@pytest.mark.slow
def test_parts_are_found_on_a_simulated_zen_4_with_its_schedulers(catalogue: Catalogue) -> None:
    backend = SimBackend(machine_of(read_machine(shipped_database(), "ZEN4")), catalogue, hide_counters=True)
    session = Session(Measurer(backend))
    context = session.run_one(Characterizer(catalogue, backend.info().capabilities, by_time=True).prepare())
    assert context.timed is not None
    (part,) = context.timed.parts
    assert (len(part.whole), len(part.part)) == (4, 3)
    for string in some(LOADING, 2):
        variant = catalogue.by_string(string)
        assert sorted(map(len, backend.machine.truth(variant).ports.uops)) == [3, 3]
        mixes = MixFactory(context.instructions)
        found = session.run_one(infer_by_time(context.timed, mixes, variant, Fraction(1, 3)))
        assert found.usage == part.usage, found
