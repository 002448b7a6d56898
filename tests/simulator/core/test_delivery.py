"""The front end, by rules that are published: predecoder, decoders, µop cache, microcode, loop buffer, queues."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.machine.constants import CoreConstants, core_of
from results.machine.graph import Behaviour, Decoding, Uop
from results.model import Status
from runner.backend import Job
from runner.backends.sim import SimBackend
from simulator.core.delivery import CodeLayout, Delivery, Fetched
from simulator.machines.machine import MachineModel, Origin, Parameters
from tests.nonempty import some
from tests.simulator.programs import ONCE, benchmark, catalogue, line

if TYPE_CHECKING:
    from generator.microbenchmark import Line

NOP = Decoding(1)
ONE_BYTE, THREE_BYTES, FOUR_BYTES, FIVE_BYTES, NINE_BYTES = (Fetched((size,), NOP) for size in (1, 3, 4, 5, 9))
FOUR_UOPS = Fetched((3,), Decoding(4, complex=True, simple=0))
TWO_UOPS = Fetched((4,), Decoding(2, complex=True, simple=2))
MICROCODED = Fetched((3,), Decoding(1, 8, complex=True, simple=0))


def run(core: CoreConstants, body: tuple[Fetched, ...], copies: int, issue: int = 4) -> tuple[list[int], list[int]]:
    """Return when each instruction can be issued, and the counts, on a core that issues so many µops per cycle."""
    assert core.uop_cache is not None
    front = Delivery(core)
    front.begin(CodeLayout(body, core.uop_cache), copies)
    arrivals, now, left = [], 0, issue
    for item in body * copies:
        arrives = front.fetch(item, now)
        arrivals.append(arrives)
        if arrives > now:
            now, left = arrives, issue
        for _ in range(item.uops):
            if not left:
                now, left = now + 1, issue
            left -= 1
    return [*arrivals, now], front.counts


def cycles(core: CoreConstants, *body: Fetched, copies: int = 64, issue: int = 4) -> float:
    """Return the cycles per copy in the long run."""
    few, many = (run(core, body, n, issue)[0][-1] for n in (copies, 3 * copies))
    return (many - few) / (2 * copies)


def without_cache(name: str) -> CoreConstants:
    """Return a core whose µop cache holds nothing, so that all is decoded anew."""
    core = core_of(name)
    assert core.uop_cache is not None
    return replace(core, uop_cache=replace(core.uop_cache, lines=0))


def test_the_predecoder_finds_five_instructions_per_cycle_in_blocks_of_sixteen_bytes() -> None:
    core = without_cache("HSW")
    assert cycles(core, *[ONE_BYTE] * 16, issue=8) == 4  # 5, 5, 5 and 1
    assert cycles(core, *[NINE_BYTES] * 16) == 9  # 144 bytes, a block per cycle


def test_a_length_changing_prefix_costs_three_cycles() -> None:
    changing, core = replace(FIVE_BYTES, length_changing=True), without_cache("HSW")
    assert cycles(core, changing) - cycles(core, FIVE_BYTES) == pytest.approx(3, abs=0.2)


def test_a_nehalem_decodes_everything_but_short_loops() -> None:
    core = core_of("NHM")
    changing = replace(FIVE_BYTES, length_changing=True)
    assert cycles(core, *[THREE_BYTES] * 16) == 4  # four decoders; three blocks
    assert run(core, (THREE_BYTES,) * 16, 10)[1] == [160, 0]
    assert cycles(core, changing) - cycles(core, FIVE_BYTES) == pytest.approx(6, abs=0.2)
    wide = replace(core, front_end=replace(core.front_end, decoders=8) if core.front_end is not None else None)
    assert cycles(wide, *[ONE_BYTE] * 16, issue=8) == 3  # 6, 6 and 4
    back = Fetched((2,), NOP, is_jump=True, jumps_bytes=-(3 * 27 + 2))
    assert run(core, (*[THREE_BYTES] * 27, back), 10)[1] == [0, 0]
    longer = replace(back, jumps_bytes=-(3 * 28 + 2))
    assert run(core, (*[THREE_BYTES] * 28, longer), 10)[1] == [290, 0]


def test_an_instruction_of_several_uops_begins_a_group_of_decoders() -> None:
    core = without_cache("HSW")
    assert cycles(core, FOUR_UOPS, issue=8) == 1
    assert cycles(core, FOUR_UOPS, THREE_BYTES, issue=8) == 2
    assert cycles(core, TWO_UOPS, FOUR_BYTES, FOUR_BYTES, issue=8) == 1
    assert cycles(core, TWO_UOPS, *[FOUR_BYTES] * 3, issue=8) == 2


def test_what_could_fuse_is_not_taken_by_the_last_decoder_of_a_haswell() -> None:
    fusible = replace(FOUR_BYTES, fusible=True)
    assert cycles(without_cache("HSW"), *[fusible] * 12, issue=8) == 4
    assert cycles(without_cache("SKL"), *[fusible] * 12, issue=8) == 3


def test_the_last_decoder_is_the_last_of_the_core_whatever_stands_before() -> None:
    fusible, beside_one = replace(THREE_BYTES, fusible=True), Fetched((3,), Decoding(2, complex=True, simple=1))
    assert cycles(without_cache("HSW"), beside_one, fusible, issue=8) == 1


def test_an_instruction_counts_in_the_block_of_its_opcode_too() -> None:
    core = without_cache("HSW")
    assert core.front_end is not None
    core = replace(core, front_end=replace(core.front_end, decoders=8))  # so that the predecoder is what limits
    crossing = [*[THREE_BYTES] * 3, *[ONE_BYTE] * 2, Fetched((9,), NOP), *[ONE_BYTE] * 12]  # 11 + 9 + 12 bytes
    assert cycles(core, *crossing, issue=8) == 2 + 3  # 6 instructions and 13
    prefixed = replace(NINE_BYTES, opcode_offsets=(5,))  # the opcode is the first byte of the block behind
    assert cycles(core, *crossing[:5], prefixed, *crossing[6:], issue=8) == 1 + 3


def test_cycles_for_prefixes_hide_behind_a_block_of_many_instructions() -> None:
    core = without_cache("HSW")
    changing = replace(FIVE_BYTES, length_changing=True)
    behind = [changing, Fetched((11,), NOP)]
    assert cycles(core, *[ONE_BYTE] * 16, *behind, issue=8) == 4 + 1  # three of the four cycles hide the prefix
    assert cycles(core, *[FOUR_BYTES] * 4, *behind, issue=8) == 1 + 1 + 3
    assert cycles(core, *[ONE_BYTE] * 16, changing, changing, Fetched((6,), NOP), issue=8) == 4 + 1 + 3


def test_a_fused_jump_of_the_same_size_has_no_prefix() -> None:
    core = without_cache("HSW")
    jump = Fetched((5,), NOP, is_jump=True)
    compare = replace(FIVE_BYTES, length_changing=True)
    assert cycles(core, compare.fused_with(jump), Fetched((6,), NOP)) == 1 + 3


def test_windows_with_too_many_uops_are_decoded_anew() -> None:
    _, counts = run(core_of("HSW"), (ONE_BYTE,) * 32, 10)
    assert counts == [320, 0]
    _, counts = run(core_of("HSW"), (THREE_BYTES,) * 32, 10)
    assert counts == [0, 0]


def test_code_that_is_larger_than_the_uop_cache_is_decoded_anew() -> None:
    assert run(core_of("HSW"), (FIVE_BYTES,) * 64, 10)[1] == [0, 0]
    assert run(core_of("HSW"), (FIVE_BYTES,) * 64, 40)[1] == [40 * 64, 0]


def test_a_jump_that_ends_a_window_is_not_cached_on_cores_with_the_erratum() -> None:
    jump, before, behind = Fetched((2,), NOP, is_jump=True), [NINE_BYTES] * 2, [NINE_BYTES] * 3
    ends = (Fetched((12,), NOP), *before, jump, *behind, FIVE_BYTES)
    ends_not = (Fetched((11,), NOP), *before, jump, *behind, Fetched((6,), NOP))
    assert [run(core_of(name), ends, 4)[1][0] > 0 for name in ("SKL", "HSW", "ICX")] == [True, False, False]
    assert run(core_of("SKL"), ends_not, 4)[1] == [0, 0]


def test_microcode_takes_the_place_of_everything_else() -> None:
    assert cycles(without_cache("HSW"), MICROCODED) == 3
    assert cycles(core_of("HSW"), replace(MICROCODED, sizes_bytes=(11,)), copies=20) == 5
    assert run(core_of("HSW"), (MICROCODED,), 10)[1][1] == 80


@pytest.mark.parametrize(
    ("name", "uops", "expected"), [("HSW", 5, 8 / 6), ("HSW", 3, 0.75), ("HSW", 7, 7 / 4), ("SNB", 5, 2)]
)
def test_a_loop_is_issued_from_the_buffer_as_often_as_it_is_unrolled(name: str, uops: int, expected: float) -> None:
    back = Fetched((2,), NOP, is_jump=True, jumps_bytes=-(3 * (uops - 1) + 2))
    found = cycles(core_of(name), *[THREE_BYTES] * (uops - 1), back, copies=48)
    assert found == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("name", "clusters"), [("ADL-E", 2), ("LNL-E", 3)])
def test_clusters_of_three_decoders_take_stretches_by_turns(name: str, clusters: int) -> None:
    core = core_of(name)
    assert core.front_end is not None
    alone = replace(core, front_end=replace(core.front_end, clusters=1))
    straight = [FOUR_BYTES] * 36
    assert cycles(alone, *straight, issue=12) == 12
    assert cycles(core, *straight, issue=12) == 12 / clusters
    loop = [*straight[1:12], replace(FOUR_BYTES, is_jump=True, jumps_bytes=-48)]
    assert cycles(alone, *loop, issue=12) == 4
    assert cycles(core, *loop, issue=12) == pytest.approx(4 / clusters, abs=0.01)


def test_a_cluster_whose_queue_is_full_waits_alone() -> None:
    """Skymont issues eight per cycle and decodes nine."""
    assert cycles(core_of("LNL-E"), *[FOUR_BYTES] * 36, issue=8, copies=256) == pytest.approx(4.5, abs=0.01)


def test_the_queue_of_uops_stops_the_decoders() -> None:
    core = without_cache("HSW")
    front = Delivery(core)
    assert core.uop_cache is not None
    front.begin(CodeLayout((THREE_BYTES,), core.uop_cache), 1000)
    for _ in range(56):
        front.fetch(THREE_BYTES, 500)  # nothing is issued before cycle 500
    assert front.cycle < 100
    front.fetch(THREE_BYTES, 500)
    front.fetch(THREE_BYTES, 500)
    assert front.cycle >= 500


NOPS = {1: "90", 3: "0f1f00", 5: "0f1f440000", 7: "0f1f8000000000", 9: "660f1f840000000000"}

OTHERS: dict[str, tuple[str | int, ...]] = {"MUL (R64)": ("RBX",), "XGETBV": (), "JMP (Rel8)": (0,)}
CORES = ("NHM", "HSW", "SKL", "ICX", "ZEN4", "ADL-E", "LNL-E")


def nop(size: int) -> Line:
    return replace(line("NOP"), code=bytes.fromhex(NOPS[size]))


@cache
def backend(name: str) -> SimBackend:
    """A machine on which every instruction is one µop without port, behind a front end."""
    core = core_of(name)
    one = Behaviour((Uop(frozenset(), 1, ()),), 1, decoding=NOP)
    two = replace(one, slots=2, decoding=Decoding(2, complex=True, simple=2))
    many = replace(one, slots=9, decoding=Decoding(1, 8, complex=True, simple=0))
    special = {"MUL": two, "CPUID": one, "XGETBV": many}
    parameters = replace(Parameters.of(core), front=core)
    lookup = lambda variant: special.get(variant.iclass, one)  # noqa: E731 - a table with a default
    return SimBackend(MachineModel(name, parameters, Origin("a test", "none"), lookup), catalogue())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([*NOPS, *OTHERS]), min_size=1, max_size=9), st.sampled_from(CORES))
def test_repeated_code_takes_as_long_as_the_same_code_written_out(body: list[int | str], name: str) -> None:
    lines = [line(one, *OTHERS[one]) if isinstance(one, str) else nop(one) for one in body]
    counters = ("core_cycles", "uops_MITE", "uops_MS")
    code = benchmark(*lines)
    alone = [backend(name).run([Job(code, copies)], counters, ONCE)[0] for copies in (200, 40, 120)]
    together = backend(name).run([Job(code, copies) for copies in (40, 120, 200)], counters, ONCE)
    assert [one.status for one in some(together)] == [Status.OK] * 3
    assert [alone[1].samples, alone[2].samples, alone[0].samples] == [one.samples for one in together]
    written = backend(name).run([Job(benchmark(*lines * 40), 1)], counters, ONCE)[0]
    assert written.samples["uops_MS"] == together[0].samples["uops_MS"]
