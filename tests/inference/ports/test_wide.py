"""Sets of ports in 512-bit code, on a made-up core whose port 1 then takes no vectors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from generator.factory import InstructionFactory
from generator.sequences.blocking import CodeKind, is_wide, kind_of, register_files, representatives
from generator.sequences.throughput import SequenceShape, ThroughputFactory
from inference.characterizer import Characterizer
from inference.experiment import Measured
from inference.ports.blocking_instructions import Candidate
from inference.ports.by_time.infer import infer_by_time
from inference.ports.by_time.machine import Discovery, TimedMachine
from inference.ports.by_time.mixes import MixFactory
from inference.ports.by_time.wide import find_wide_sets
from inference.ports.infer import PortConclusion
from results.findings import Indistinguishable
from results.model import PortUsage, Status
from results.ports import throughput_of
from runner.backends.sim import SimBackend, open_machine
from runner.measuring.protocol import Measurer
from runner.measuring.session import Session
from tests.inference.ports.test_by_time import driven
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from inference.experiment import Request
    from xed_convert.model import InstructionVariant

WIDTH = 6
NARROW = {
    "PDEP (R64, R64, R64)": "p1",
    "POPCNT (R64, R64)": "p1",
    "RORX (R64, R64, I8)": "p06",
    "SARX (R64, R64, R64)": "p06",
    "ANDN (R64, R64, R64)": "p15A",
    "BLSI_GPR64Q (R64, R64)": "p15A",
    "VANDPS (XMM, XMM, XMM)": "p015",
    "VPADDD (XMM, XMM, XMM)": "p015",
    "VPAVGB (XMM, XMM, XMM)": "p01",
    "VPMINSD (XMM, XMM, XMM)": "p01",
    "VPSHUFD (XMM, XMM, I8)": "p15",
    "VPUNPCKLDQ (XMM, XMM, XMM)": "p15",
    "VPSADBW (XMM, XMM, XMM)": "p5",
    "VPALIGNR (XMM, XMM, XMM, I8)": "p5",
    "KMOVD (K, K)": "p0",
    "VMOVMSKPS (R32, XMM)": "p0",
}
WIDE = {
    "VPADDD (ZMM, ZMM, ZMM)": "p05",
    "VANDPS (ZMM, ZMM, ZMM)": "p05",
    "VPORD (ZMM, ZMM, ZMM)": "p05",
    "VPSLLD (ZMM, ZMM, I8)": "p0",
    "VPAVGB (ZMM, ZMM, ZMM)": "p0",
    "VPSHUFB (ZMM, ZMM, ZMM)": "p5",
    "VPSADBW (ZMM, ZMM, ZMM)": "p5",
}
SUBJECTS = {
    "VPSUBD (ZMM, ZMM, ZMM)": ("p05", 1),
    "VPABSD (ZMM, ZMM)": ("p0", 1),
    "VPERMD (ZMM, ZMM, ZMM)": ("p5", 1),
    "VPSUBD (XMM, XMM, XMM)": ("p015", 1),
}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


@dataclass
class MadeUpCore:
    """Times of mixes by the linear program of ports. `closed` are ports that 512-bit code keeps narrower vectors from.

    `usages` are sets of ports joined by +; `halves` are instructions with two µops in one slot.
    """

    catalogue: Catalogue
    usages: dict[str, str]
    closed: frozenset[str] = frozenset("1")
    halves: frozenset[str] = field(default_factory=frozenset)
    _known: dict[str, InstructionVariant] = field(default_factory=dict)

    def measured(self, request: Request) -> Measured:
        lines = request.benchmark.body
        counts = Counter(line.key for line in lines if line.key)  # the rest is filler
        variants = {key: self._variant(key) for key in counts}
        wide = any(map(is_wide, variants.values()))
        used = Counter[frozenset[str]]()
        for key, count in counts.items():
            variant = variants[key]
            for ports in filter(None, self.usages.get(variant.string, "").split("+")):
                used[self._ports(variant, ports, wide=wide)] += count * (2 if variant.string in self.halves else 1)
        cycles = max(throughput_of(PortUsage(dict(used))), Fraction(len(lines), WIDTH))
        return Measured(request, Status.OK, {"core_cycles": cycles}, {}, None)

    def _variant(self, key: str) -> InstructionVariant:
        if key not in self._known:
            self._known[key] = self.catalogue.by_key(key)
        return self._known[key]

    def _ports(self, variant: InstructionVariant, ports: str, *, wide: bool) -> frozenset[str]:
        own = frozenset(ports[1:])
        is_moved = wide and not is_wide(variant) and "VEC" in register_files(variant)
        return own - self.closed if is_moved else own


def candidates(catalogue: Catalogue, strings: dict[str, str]) -> list[Candidate]:
    instructions = InstructionFactory(catalogue)
    variants = [catalogue.by_string(string) for string in strings]
    return [Candidate(one, ThroughputFactory(instructions, one).sequence(SequenceShape(12))) for one in variants]


def searched(
    catalogue: Catalogue, core: MadeUpCore, wide: dict[str, str], narrow: dict[str, str] | None = None
) -> tuple[TimedMachine, TimedMachine | None]:
    discovery = Discovery(MixFactory(InstructionFactory(catalogue)))
    machine = driven(discovery.run([candidates(catalogue, narrow or NARROW)]), core.measured)
    assert isinstance(machine, TimedMachine)
    found = driven(find_wide_sets(discovery, machine, candidates(catalogue, wide)), core.measured)
    assert found is None or isinstance(found, TimedMachine)
    return machine, found


def names(machine: TimedMachine, by_letter: dict[str, str]) -> set[str]:
    return {"".join(sorted(by_letter[port] for port in one.ports)) for one in machine.sets}


def letters(machine: TimedMachine, narrow: dict[str, str] | None = None) -> dict[str, str]:
    """Return the true names of a machine's ports: each is in those sets that its true port is in."""
    sets = {one.ports: frozenset((narrow or NARROW)[one.members[0]][1:]) for one in machine.sets}
    found = {}
    for port in frozenset[str]().union(*sets):
        fitting = frozenset.intersection(*(true for own, true in sets.items() if port in own))
        outside = frozenset[str]().union(*(true for own, true in sets.items() if port not in own))
        (found[port],) = fitting - outside
    return found


def test_512_bit_code_has_sets_of_its_own_where_it_keeps_narrower_vectors_from_a_port(catalogue: Catalogue) -> None:
    core = MadeUpCore(catalogue, NARROW | WIDE)
    machine, found = searched(catalogue, core, WIDE)
    by_letter = letters(machine)
    assert names(machine, by_letter) == {"1", "06", "15A", "015", "01", "15", "5", "0"}
    assert found is not None
    # p01, p15 and p015 of narrower vectors are no longer what they were
    assert names(found, by_letter) == {"1", "06", "15A", "05", "0", "5"}
    assert all(list(one.blockers) == [CodeKind.WIDE] for one in found.sets)
    both = {by_letter[port]: port for port in by_letter}
    (vectors,) = (one for one in found.sets if one.ports == {both["0"], both["5"]})
    assert set(vectors.members) <= {name for name, ports in WIDE.items() if ports == "p05"}


def test_ports_of_512_bit_instructions_are_stated_by_these_sets(catalogue: Catalogue) -> None:
    usages = NARROW | WIDE | {string: ports for string, (ports, _) in SUBJECTS.items()}
    core = MadeUpCore(catalogue, usages)
    machine, found = searched(catalogue, core, WIDE)
    by_letter = letters(machine)
    mixes = MixFactory(InstructionFactory(catalogue))
    for string, (ports, count) in some(SUBJECTS.items(), 4):
        variant = catalogue.by_string(string)
        cycles = Fraction(count, len(ports) - 1)
        for known, is_stated in ((replace(machine, wide=found), True), (machine, False)):
            said: PortConclusion = driven(infer_by_time(known, mixes, variant, cycles), core.measured)  # type: ignore[assignment]
            if not is_stated and kind_of(variant) is CodeKind.WIDE:
                assert said.usage is None or str(said.usage) == true_usage(by_letter, ports, count), string
            else:
                assert str(said.usage) == true_usage(by_letter, ports, count), string


def true_usage(by_letter: dict[str, str], ports: str, count: int) -> str:
    public = {true: f"r{letter}" for letter, true in by_letter.items()}
    return str(PortUsage({frozenset(public[port] for port in ports[1:]): count}))


def test_sets_of_other_code_stay_where_nothing_changes(catalogue: Catalogue) -> None:
    same = {"VPADDD (ZMM, ZMM, ZMM)": "p015", "VANDPS (ZMM, ZMM, ZMM)": "p015", "VPSADBW (ZMM, ZMM, ZMM)": "p5"}
    _, found = searched(catalogue, MadeUpCore(catalogue, NARROW | same, frozenset()), same)
    assert found is None


def test_further_sets_of_512_bit_instructions_join_those_of_other_code(catalogue: Catalogue) -> None:
    """On Skylake-X as LLVM models it, 512-bit instructions have p05, and p015 of others stays."""
    machine, found = searched(catalogue, MadeUpCore(catalogue, NARROW | WIDE, frozenset()), WIDE)
    assert found is not None
    assert names(found, letters(machine)) == {"1", "06", "15A", "015", "01", "15", "5", "0", "05"}


FOUR_PIPES = {
    "VANDPS (XMM, XMM, XMM)": "p0123",
    "VPADDD (XMM, XMM, XMM)": "p0123",
    "VPAVGB (XMM, XMM, XMM)": "p01",
    "VPSHUFD (XMM, XMM, I8)": "p12",
    "VADDPS (XMM, XMM, XMM)": "p23",
    "VPSADBW (XMM, XMM, XMM)": "p02",
    "VPMINSD (XMM, XMM, XMM)": "p13",
}


def test_two_halves_in_a_slot_are_no_set_of_half_as_many_ports(catalogue: Catalogue) -> None:
    """A Zen 4 does 512-bit additions half as often as narrower ones, on the same pipes.

    Of two of these pipes only p03 agrees with the other sets.
    """
    strings = ("VPADDD (ZMM, ZMM, ZMM)", "VANDPS (ZMM, ZMM, ZMM)")
    halved = dict.fromkeys(strings, "p0123")
    core = MadeUpCore(catalogue, FOUR_PIPES | halved, frozenset(), frozenset(halved))
    machine, found = searched(catalogue, core, halved, FOUR_PIPES)
    assert len(machine.sets) == 6
    assert found is None
    whole = dict.fromkeys(strings, "p03")
    machine, found = searched(catalogue, MadeUpCore(catalogue, FOUR_PIPES | whole, frozenset()), whole, FOUR_PIPES)
    assert found is not None
    assert len(found.sets) == 7


def test_a_set_that_fits_several_places_is_left_out(catalogue: Catalogue) -> None:
    few = {string: ports for string, ports in NARROW.items() if ports not in {"p0", "p5"}}
    wide = {string: ports for string, ports in WIDE.items() if ports == "p05"}
    _, found = searched(catalogue, MadeUpCore(catalogue, few | wide), wide, few)
    assert found is None


def test_what_no_512_bit_instruction_shows_is_not_known_of_them(catalogue: Catalogue) -> None:
    """A port of narrower vectors only may not be theirs, and neither may that of narrower loads."""
    more = {
        "VPMADDWD (XMM, XMM, XMM)": "p4",
        "VPMADDUBSW (XMM, XMM, XMM)": "p4",
        "MOV (R64, M64)": "p2",
        "VMOVD (XMM, M32)": "p2",
    }
    machine, found = searched(catalogue, MadeUpCore(catalogue, NARROW | more | WIDE), WIDE, NARROW | more)
    by_letter = letters(machine, NARROW | more)
    assert {"4", "2"} <= names(machine, by_letter)
    assert found is not None
    assert names(found, by_letter) == {"1", "06", "15A", "05", "0", "5", "2"}
    files = [{one.is_of_memory: one.files for one in each.sets}[True] for each in (machine, found)]
    assert files == [{"GPR", "VEC"}, {"GPR"}]


LOADS = {"MOV (R64, M64)": "p23", "VMOVD (XMM, M32)": "p23"}


@pytest.mark.parametrize(
    ("loads", "shown"),
    [
        pytest.param({"VMOVAPS (ZMM, M512)": "p23"}, {"GPR", "VEC"}, id="the same ports"),
        pytest.param({"VMOVAPS (ZMM, M512)": "p2"}, {"GPR"}, id="one of them"),
        pytest.param({"VMOVAPS (ZMM, M512)": "p24"}, {"GPR"}, id="one of them and another"),
        pytest.param({"VMOVAPS (M512, ZMM)": "p23"}, {"GPR"}, id="a store"),
        pytest.param({"VPMOVZXBW (ZMM, M256)": "p23"}, {"GPR"}, id="256 bits of memory"),
        pytest.param(
            {"VMOVAPS (ZMM, M512)": "p24", "VMOVDQA64 (ZMM, M512)": "p23"}, {"GPR", "VEC"}, id="one load of two"
        ),
    ],
)
def test_512_bit_loads_show_that_a_set_of_loads_takes_them(
    catalogue: Catalogue, loads: dict[str, str], shown: set[str]
) -> None:
    narrow, wide = NARROW | LOADS, WIDE | loads
    machine, found = searched(catalogue, MadeUpCore(catalogue, narrow | wide), wide, narrow)
    assert found is not None
    (set_of_loads,) = [one for one in found.sets if one.is_of_memory]
    assert set_of_loads.ports in {one.ports for one in machine.sets if one.is_of_memory}
    assert set_of_loads.files == shown
    assert {one for one in set_of_loads.members if one in loads} == {
        one for one, ports in loads.items() if ports == "p23" and "VEC" in shown
    }


def test_a_512_bit_load_is_stated_where_others_show_its_set(catalogue: Catalogue) -> None:
    """Its other µop takes a cycle of port 0, so that its own time allows a single load port, too."""
    subject = catalogue.by_string("VPMINSD (ZMM, ZMM, M512)")
    narrow, wide = NARROW | LOADS, WIDE | {"VMOVAPS (ZMM, M512)": "p23"}
    core = MadeUpCore(catalogue, narrow | wide | {subject.string: "p0+p23"})
    machine, found = searched(catalogue, core, wide, narrow)
    without = replace(machine, wide=searched(catalogue, core, WIDE, narrow)[1])
    mixes = MixFactory(InstructionFactory(catalogue))
    stated, named = (
        driven(infer_by_time(each, mixes, subject, Fraction(1)), core.measured)
        for each in (replace(machine, wide=found), without)
    )
    assert isinstance(stated, PortConclusion)
    assert isinstance(named, PortConclusion)
    (loads,) = [machine.public(one.ports) for one in machine.sets if one.is_of_memory]
    assert stated.usage is not None
    assert sorted(map(len, stated.usage.uops)) == [1, 2]
    assert stated.usage.uops[loads] == 1
    assert isinstance(named.failure, Indistinguishable)


def test_mmx_instructions_show_a_set_that_other_narrow_ones_lack(catalogue: Catalogue) -> None:
    """On the simulated SKX, all sets of 512-bit instructions are then those of other code."""
    backend = SimBackend(open_machine("SKX"), catalogue, hide_counters=True)
    characterizer = Characterizer(catalogue, backend.info().capabilities, by_time=True)
    timed = Session(Measurer(backend)).run_one(characterizer.prepare()).timed
    assert timed is not None
    assert timed.wide is None
    fincstp = catalogue.by_string("FINCSTP")
    (of_mmx,) = [one for one in timed.sets if "PADDD (MM, MM)" in one.members]
    assert set(of_mmx.blockers) == set(CodeKind)
    for one in some([one for one in timed.sets if not one.is_of_memory], 8):
        truth = {str(backend.machine.truth(catalogue.by_string(each)).ports) for each in one.members}
        assert truth == {str(PortUsage({timed.public(one.ports): 1}))}, one.members
    found = {timed.public(one.ports) for one in timed.sets if CodeKind.WIDE in one.blockers}
    wide = [one for one in representatives(catalogue, CodeKind.WIDE) if is_wide(one) and backend.machine.behaviour(one)]
    usages = [backend.machine.truth(one).ports for one in wide]
    truth_of_wide = {ports for usage in usages if usage is not None and usage.total == 1 for ports in usage.uops}
    assert found.issuperset(some(truth_of_wide, 4))
    asked: list[str] = []

    def answer(request: Request) -> Measured:
        asked.extend(line.text for line in request.benchmark.body)
        return Measurer(backend).measure([request])[0]

    driven(infer_by_time(timed, MixFactory(InstructionFactory(catalogue)), fincstp, Fraction(1)), answer)
    assert any("SARX" in one or "RORX" in one for one in asked)
    assert not any("MM0" in one.replace("XMM0", "").replace("YMM0", "") for one in asked), "MMX beside x87"
