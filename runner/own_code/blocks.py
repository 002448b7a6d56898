"""Measures basic blocks of real programs: code that reads and writes anywhere, with nothing set up for it.

As BHive's harness does (Chen et al., "BHive", IISWC 2019): pages that a block touches are mapped when it faults, all of
them to one physical page, so that every access hits the first-level cache. Registers and memory begin with one value,
from which addresses that can be mapped follow. What differs: a short block runs in a loop of many rounds, each of which
begins with the same registers, so that a clock of coarse ticks serves. Memory is filled once per run.

    unrolled: [registers = value, LFENCE, n copies] so many times, for two n; the difference counts
    loop:     [some copies, DEC, JNE] so many times, for two numbers of copies, without anything in between

Blocks are measured in batches, in rounds: a short probe finds faults and how long a block takes; then both sizes run
until the faster half of the rounds of each agrees. A round may be slower than others in all of its repetitions, with
nothing else on the core: on a Zen 4, 101 copies of two loads took 160 cycles in one of ten places in physical memory,
and 129 in the others. So blocks that use memory have six rounds, each with the code in another place. Rounds may be
faster than others, too, and more so if there are many of them. So the lower quartile of the rounds counts: of 9,900
blocks measured twice, 98.5% agree within 2% by it, and 97.9% by the two fastest rounds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from iced_x86 import Decoder, FlowControl, InstructionInfoFactory, Register, RegisterExt

from generator.harness.style import LOOP_REGISTERS, State
from generator.microbenchmark import Line, Microbenchmark
from results.model import Status
from runner.backend import CLOCK_COUNTERS, CONTENTION_PROBE, Conditions, Job, Repeat
from runner.measuring.protocol import NOTHING
from runner.measuring.quiet import Patience, QuietFilter, Repetitions
from runner.own_code.code import MeasureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.backend import Backend, JobResult

INITIAL_VALUE = 0x2324000
"""Of registers and memory: INIT_VALUE of BHive's harness (github.com/ithemal/bhive, timing-harness/harness.c)."""

BATCH = 128
"""Blocks per batch: two jobs each fit into one batch of the native server."""

FEW_INSTRUCTIONS, MORE_INSTRUCTIONS = 100, 200
"""The smaller size has this many instructions, the larger one so many more: schedulers and buffers are full."""
LOOP_INSTRUCTIONS, LOOP_GROWTH = 16, 4
"""The smaller and the larger loop, as for single instructions (`runner.measuring.sizing`)."""
CODE_BYTES = 24 << 10
"""Of the larger size: what an L1 instruction cache of 32 KiB holds beside harness and calibration."""

USUAL_ROUNDS, LEAST_ROUNDS = 6, 2
"""Rounds that a block with and without memory has in any case: one in ten is slow for loads and stores."""
QUARTILE = 0.25
"""Which round counts, as a share of them all from the fastest one on; between two rounds it is interpolated."""
SHIFT = 37
"""Blocks by which the order is turned from round to round: no other round of a block has its place."""
PROBE_ROUNDS = 4
TARGET_CYCLES = 16_000
"""Core cycles of a run: a tick of 26 TSC cycles is 0.2% of it."""
TOO_SHORT = 3
"""A run that is shorter by this factor starts anew."""
MOST_ROUNDS_OF_LOOP = 400
MOST_STEPS = 100
"""Instructions that are looked at for accesses across cache lines."""
LOOP_ITERATIONS = 100

AGREEMENT = 0.01
"""The spread of a block, per cycle, that needs no further rounds: half of what two measurements may differ by. One
block in twelve needs more than six."""
STEADY = 0.1
"""A block whose rounds differ by more than this has no number."""
LEAST_CYCLES = 0.05
"""Less cannot be: no core retires 20 instructions in a cycle."""


class Mode(StrEnum):
    """How copies of a block are run."""

    UNROLLED = "unrolled"
    LOOP = "loop"


@dataclass(frozen=True, slots=True)
class BlockOptions:
    """What may be changed: the initial value, the modes, and how hard to try.

    `repetitions` per round and size, of which `enough` have to be undisturbed; at most `rounds`. Waiting for a quiet
    core and measuring again takes at most `patience_seconds` plus `patience_ratio` times what all the rest takes.
    """

    value: int = INITIAL_VALUE
    modes: tuple[Mode, ...] = (Mode.UNROLLED,)
    repetitions: int = 8
    enough: int = 6
    rounds: int = 24
    time_limit_seconds: float = 0.5
    patience_seconds: float = 5.0
    patience_ratio: float = 2.0
    may_call: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """Core cycles per copy in one mode with their spread, or the reason why there are none.

    With cycles, `reason` is a remark. `spread` is how far the faster half of the rounds lies apart.
    """

    status: Status
    cycles: float | None = None
    spread: float | None = None
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether there is a number."""
        return self.cycles is not None


@dataclass(frozen=True, slots=True)
class BlockResult:
    """What a block takes, by mode."""

    code: bytes
    timings: dict[Mode, Timing]

    @property
    def unrolled(self) -> Timing:
        """The block copied many times."""
        return self.timings[Mode.UNROLLED]


@dataclass(frozen=True, slots=True)
class Shape:
    """What decoding a block says: how many instructions, whether any uses memory, a register that is left alone.

    `reason`: why it cannot be measured.
    """

    instructions: int
    free: str
    uses_memory: bool = False
    reason: str = ""


@dataclass(slots=True)
class _Entry:
    """A block in one mode while it is measured; `times` are the core cycles of its undisturbed rounds, by size."""

    block: Microbenchmark
    shape: Shape
    mode: Mode
    copies: tuple[int, int] = (0, 0)
    iterations: int = 0
    times: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    disturbed: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    rounds: int = 0
    timing: Timing | None = None
    remark: str = ""


def read_blocks(lines: Iterable[str], where: str) -> Iterator[bytes]:
    """Yield the blocks of a table: the first column is code in hexadecimal; a first line without any is a header.

    Raises:
        MeasureError: a line has no code; the message names it.
    """
    for number, line in enumerate(lines, 1):
        text = line.partition(",")[0].strip().strip('"')
        if not text:
            continue
        try:
            yield bytes.fromhex(text)
        except ValueError:
            if number > 1:
                message = f"{where}:{number}: {text[:60]!r} is not code in hexadecimal"
                raise MeasureError(message, hint="one block per line, as in: 4801d8480fafd8") from None


class BlockMeasurer:
    """Measures blocks with one backend; what it learns of a quiet core serves all of them."""

    def __init__(self, backend: Backend, options: BlockOptions | None = None) -> None:
        """Ask the backend what it counts.

        Raises:
            BackendError: it cannot be used here.
        """
        self.backend = backend
        self.info = backend.info()
        self.options = options or BlockOptions()
        counters = self.info.counters
        self._clock = ("core_cycles",) if "core_cycles" in counters else CLOCK_COUNTERS
        self._quiet = QuietFilter() if CONTENTION_PROBE in counters else None
        self._rounds = 0
        self._patience = Patience(self.options.patience_seconds, self.options.patience_ratio)

    def measure(self, blocks: Iterable[bytes]) -> Iterator[BlockResult]:
        """Yield what each block takes, in order.

        Raises:
            BackendError: the backend broke down.
        """
        batch: list[bytes] = []
        for block in blocks:
            batch.append(block)
            if len(batch) == BATCH:
                yield from self._measure_batch(batch)
                batch = []
        if batch:
            yield from self._measure_batch(batch)

    def _measure_batch(self, batch: Sequence[bytes]) -> Iterator[BlockResult]:
        shapes = [shape_of(code) for code in batch]
        lines = [Microbenchmark((), (Line(code, code.hex()),), "a basic block") for code in batch]
        timings: list[dict[Mode, Timing]] = [{} for _ in batch]
        remarks = self._misaligned(lines, shapes)
        for mode in self.options.modes:
            entries = [
                _Entry(line, shape, mode, remark=remark)
                for line, shape, remark in zip(lines, shapes, remarks, strict=True)
            ]
            self._measure_entries(entries)
            for entry, found in zip(entries, timings, strict=True):
                assert entry.timing is not None
                found[mode] = entry.timing
        for code, found in zip(batch, timings, strict=True):
            yield BlockResult(code, found)

    def _measure_entries(self, entries: Sequence[_Entry]) -> None:
        for entry in entries:
            entry.timing = _refusal(entry)
        self._probe([entry for entry in entries if entry.timing is None])
        while active := [entry for entry in entries if entry.timing is None]:
            started = time.monotonic()
            is_again = all(entry.rounds >= USUAL_ROUNDS for entry in active)
            self._run_round(active)
            self._patience.count(time.monotonic() - started, is_again=is_again)
            for entry in active:
                self._judge(entry)
            without = [entry for entry in active if entry.timing is None and not all(entry.times)]
            if self._quiet and 2 * len(without) > len(active):
                self._patience.wait(self._looks_quiet)

    def _misaligned(self, blocks: Sequence[Microbenchmark], shapes: Sequence[Shape]) -> list[str]:
        """Return for each block which access crosses a cache line ("": none does, or it is not known)."""
        remarks = [""] * len(blocks)
        if self.info.is_model:
            return remarks
        numbers = [number for number, shape in enumerate(shapes) if shape.uses_memory and not shape.reason]
        asked = Conditions(state=State.AGAIN, value=self.options.value, may_call=self.options.may_call, stepped=True)
        copies = [max(1, MOST_STEPS // shapes[number].instructions) for number in numbers]
        jobs = [Job(blocks[number], count, 1, conditions=asked) for number, count in zip(numbers, copies, strict=True)]
        results = self.backend.run(jobs, self._clock, Repeat(0, 1, self.options.time_limit_seconds)) if jobs else []
        for number, result in zip(numbers, results, strict=True):
            if result.status is Status.OK:
                remarks[number] = result.detail
        return remarks

    def _probe(self, entries: Sequence[_Entry]) -> None:
        """Run each block for a moment: one that faults is done with, and the others get their iterations.

        Simulated machines count exactly and have memory everywhere: there blocks run once, with unknown registers.
        """
        for entry in entries:
            entry.copies = _copies(entry)
        jobs = [self._job(entry, 1, PROBE_ROUNDS) for entry in entries]
        repeat = Repeat(1, 3, self.options.time_limit_seconds)
        for entry, result in zip(entries, self.backend.run(jobs, self._clock, repeat), strict=True):
            if result.status is not Status.OK:
                entry.timing = Timing(result.status, reason=result.detail)
                continue
            entry.iterations = _iterations(entry, self._cycles(result.samples) / PROBE_ROUNDS)
            if self.info.is_model:
                entry.iterations = LOOP_ITERATIONS if entry.mode is Mode.LOOP else 1

    def _job(self, entry: _Entry, size: int, iterations: int) -> Job:
        is_loop = entry.mode is Mode.LOOP
        if self.info.is_model:
            conditions = Conditions(loop_register=entry.shape.free if is_loop else "r15")
            return Job(entry.block, entry.copies[size], LOOP_ITERATIONS if is_loop else 0, conditions=conditions)
        conditions = Conditions(
            state=State.GIVEN if is_loop else State.AGAIN,
            loop_register=entry.shape.free if is_loop else "r15",
            value=self.options.value,
            goes_on=size == 0,
            may_call=self.options.may_call,
        )
        return Job(entry.block, entry.copies[size], iterations, conditions=conditions)

    def _run_round(self, active: Sequence[_Entry]) -> None:
        """Run both sizes of these blocks; the larger one first, which touches all pages that the smaller one does.

        In each round the blocks are in another order, so that their code is in other physical pages.
        """
        shift = SHIFT * self._rounds % len(active)
        self._rounds += 1
        active = [*active[shift:], *active[:shift]]
        jobs = [self._job(entry, size, entry.iterations) for entry in active for size in (1, 0)]
        repeat = Repeat(1, self.options.repetitions, self.options.time_limit_seconds)
        results = iter(self.backend.run(jobs, self._clock, repeat))
        pairs = [(entry, next(results), next(results)) for entry in active]
        if self._quiet:
            good = (result for _, *both in pairs for result in both if result.status is Status.OK)
            self._quiet.learn(*(Repetitions.of(result.samples) for result in good))
        for entry, large, small in pairs:
            self._take(entry, large, small)

    def _take(self, entry: _Entry, large: JobResult, small: JobResult) -> None:
        """Take in one round of a block."""
        entry.rounds += 1
        for result in (large, small):
            if result.status is not Status.OK:
                entry.timing = Timing(result.status, reason=result.detail)
                return
        for size, result in enumerate((small, large)):
            samples, is_quiet = result.samples, True
            if self._quiet:
                repetitions = Repetitions.of(samples)
                is_quiet = self._quiet.count(repetitions) >= self.options.enough
                samples = self._quiet.undisturbed(samples, repetitions, self.options.enough)
            times = entry.times if is_quiet else entry.disturbed
            times[size].append(self._cycles(samples))
        self._resize(entry)

    def _resize(self, entry: _Entry) -> None:
        """Start anew with more iterations where a run is far shorter than it should be: its probe was disturbed."""
        longest = max((time for times in (entry.times, entry.disturbed) for time in times[1]), default=TARGET_CYCLES)
        if entry.rounds == 1 and not self.info.is_model and longest < TARGET_CYCLES / TOO_SHORT:
            entry.iterations = _iterations(entry, longest / entry.iterations)
            entry.times, entry.disturbed = ([], []), ([], [])

    def _cycles(self, samples: Mapping[str, Sequence[int]]) -> float:
        """Return the core cycles of a run: the mean between the quartiles, which few odd repetitions move little."""
        if "core_cycles" in samples:
            return _middle(samples["core_cycles"])
        return _middle(samples["tsc"]) * self.info.calibration_core_cycles / max(1.0, _middle(samples["calibration"]))

    def _judge(self, entry: _Entry) -> None:
        """Decide whether a block is done."""
        if entry.timing is not None:
            return
        usual = USUAL_ROUNDS if entry.shape.uses_memory and not self.info.is_model else LEAST_ROUNDS
        found = _difference(entry, entry.times) if entry.rounds >= usual else None
        if found and found[1] <= AGREEMENT * found[0] and found[0] >= LEAST_CYCLES:
            entry.timing = Timing(Status.OK, *found, entry.remark)
        elif entry.rounds >= (self.options.rounds if self._patience.is_left else USUAL_ROUNDS):
            entry.timing = _last_word(entry)

    def _looks_quiet(self) -> bool:
        """Run the contention probe alone for a moment."""
        assert self._quiet is not None
        repeat = Repeat(0, 10, self.options.time_limit_seconds)
        (result,) = self.backend.run([Job(NOTHING, 1)], CLOCK_COUNTERS, repeat)
        return result.status is not Status.OK or self._quiet.is_quiet(result.samples)


def _iterations(entry: _Entry, cycles: float) -> int:
    """Return how often to run the copies of the larger size, which take so many cycles."""
    most = LOOP_ITERATIONS if entry.mode is Mode.LOOP else MOST_ROUNDS_OF_LOOP
    return max(1, min(most, round(TARGET_CYCLES / max(1.0, cycles))))


def _middle(samples: Sequence[int]) -> float:
    """Return the mean between the quartiles."""
    ordered = sorted(samples)
    inner = ordered[len(ordered) // 4 : len(ordered) - len(ordered) // 4]
    return sum(inner) / len(inner) if inner else 0.0


def _difference(entry: _Entry, times: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Return cycles per copy by the lower quartile of the rounds of each size, and their spread; None: too few."""
    small, large = map(sorted, times)
    if len(small) < LEAST_ROUNDS or len(large) < LEAST_ROUNDS:
        return None
    few, many = entry.copies
    scale = (many - few) * entry.iterations
    distance = sum(each[len(each) // 2] - each[0] for each in (small, large)) / 2
    return (_quartile(large) - _quartile(small)) / scale, distance / scale


def _quartile(ordered: Sequence[float]) -> float:
    """Return the lower quartile of ordered times."""
    whole, part = divmod(QUARTILE * (len(ordered) - 1), 1)
    low, high = ordered[int(whole)], ordered[int(whole) + 1]
    return low + part * (high - low)


def _last_word(entry: _Entry) -> Timing:
    """Return what there is to say of a block whose rounds do not agree well."""
    found = _difference(entry, entry.times)
    remark = "unsteady"
    if found is None:
        found = _difference(entry, [[*quiet, *rest] for quiet, rest in zip(entry.times, entry.disturbed, strict=True)])
        remark = "another thread used the same core all the time"
    if found is None or found[0] < LEAST_CYCLES or found[1] > STEADY * found[0]:
        return Timing(Status.UNCLEAN, reason=f"unsteady: the faster half of {entry.rounds} rounds is over 10% apart")
    return Timing(Status.OK, *found, "; ".join(filter(None, (entry.remark, remark))))


def _copies(entry: _Entry) -> tuple[int, int]:
    """Return the copies of the two sizes."""
    size, lines = len(entry.block.body_code), entry.shape.instructions
    if entry.mode is Mode.LOOP:
        few = max(1, LOOP_INSTRUCTIONS // lines)
        return few, few * LOOP_GROWTH
    few = -(-FEW_INSTRUCTIONS // lines)
    many = few + max(4, -(-MORE_INSTRUCTIONS // lines))
    most = max(2, CODE_BYTES // size)
    return (few, many) if many <= most else (max(1, most // 3), most)


def _refusal(entry: _Entry) -> Timing | None:
    """Return why a block cannot be measured at all."""
    reason = entry.shape.reason
    if not reason and entry.mode is Mode.LOOP and not entry.shape.free:
        reason = "no register is left to count the loop"
    if not reason and 2 * len(entry.block.body_code) > CODE_BYTES:
        reason = f"{len(entry.block.body_code)} bytes are too many for the instruction cache"
    return Timing(Status.REFUSED, reason=reason) if reason else None


_FACTORY = InstructionInfoFactory()
_NUMBERS = {getattr(Register, name.upper()): name for name in LOOP_REGISTERS}


def shape_of(code: bytes) -> Shape:
    """Decode a block; what iced-x86 does not know may still run, so it is no reason to refuse it."""
    count, used, uses_memory = 0, set(), False
    for instruction in Decoder(64, code):
        count += 1
        if instruction.is_invalid:
            continue
        if instruction.flow_control in {FlowControl.RETURN, FlowControl.INDIRECT_BRANCH, FlowControl.INDIRECT_CALL}:
            return Shape(count, "", reason="it leaves the block by an indirect branch")
        info = _FACTORY.info(instruction)
        used |= {RegisterExt.full_register(one.register) for one in info.used_registers()}
        uses_memory |= bool(info.used_memory())
    if not count:
        return Shape(0, "", reason="there is no code")
    return Shape(count, next((name for number, name in _NUMBERS.items() if number not in used), ""), uses_memory)
