"""Measures basic blocks of real programs, which read and write anywhere.

The method is that of BHive's harness (Chen et al., "BHive", IISWC 2019). Pages that a block touches are mapped when it
faults. All are one physical page, so every access hits the first-level cache. Registers and memory are filled with one
value, such that addresses computed from it can be mapped. One thing differs: a block runs in a loop of many iterations,
so that a coarse clock is enough. Each iteration begins with the same registers, and the first ones do not count. Memory
is filled once per run.

    unrolled: [registers = value, LFENCE, n copies] in a loop, for two n; the difference counts
    loop:     [some copies, NOP, DEC, JNE] for two numbers of copies (the NOP: `generator.harness.harness`)

Blocks are measured in batches, in rounds. A trial run finds faults, and how long a block takes. Then both sizes run
until the faster half of the rounds of each agrees.

A whole round may be slow although nothing else uses the core. On a Zen 4, 101 copies of two loads took 160 cycles in
one of ten places in physical memory, and 129 in the others. So blocks that use memory have eight rounds, each with the
code in another place. Some rounds are unusually fast, so the lower quartile counts, not the minimum. Of 9,900 blocks
measured twice, 98.5% agree within 2% by the lower quartile, and 97.9% by the two fastest rounds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from generator.harness.style import State
from generator.microbenchmark import Line, Microbenchmark
from results.model import Status
from runner.backend import CLOCK_COUNTERS, Conditions, Job, Repeat
from runner.measuring.protocol import looks_quiet
from runner.measuring.quiet import Patience, Repetitions, Watch
from runner.own_code.block_rounds import LEAST_ROUNDS, BlockProblem, BlockRounds, BlockTiming
from runner.own_code.block_shapes import shape_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.backend import Backend, JobResult
    from runner.own_code.block_shapes import BlockShape

INITIAL_VALUE = 0x2324000
"""Value of registers and memory: INIT_VALUE of BHive's harness (github.com/ithemal/bhive, timing-harness/harness.c)."""

BATCH = 128
"""Blocks per batch: two jobs each fit into one batch of the native server."""

FEW_INSTRUCTIONS, MORE_INSTRUCTIONS = 100, 400
"""The smaller size has this many instructions, the larger one this many more: schedulers and buffers are full.

On a disturbed Ice Lake (load 13), two measurements agreed within 2% in 90% of 384 blocks with 200 more, in 95% with 400
more. With 800 more it was 85% of 512, where 400 gave 96%: a run has too few rounds then.
"""
LOOP_INSTRUCTIONS, LOOP_GROWTH = 16, 4
"""The smaller and the larger loop, as for single instructions (`runner.measuring.sizing`)."""
CODE_BYTES = 24 << 10
"""Of the larger size: what an L1 instruction cache of 32 KiB holds beside harness and calibration."""

USUAL_ROUNDS = 8
"""Rounds that a block with memory has in any case (`LEAST_ROUNDS` without): one in ten is slow for loads and stores.
Half of them have to be undisturbed, since two or three may all be slow, or all fast.

On a disturbed Ice Lake (load 11), two measurements agreed within 2% in 98.6% of 768 blocks with eight, and in 96.5%
with six.
"""
SHIFT = 37
"""Blocks by which the order is rotated from round to round, so that each round of a block is in another place."""
PROBE_ROUNDS = 4
TARGET_CYCLES = 24_000
"""Core cycles of a run: a tick of 26 TSC cycles is 0.1% of it. On the Ice Lake, 97.6% of 512 blocks agreed with it, and
96.3% with two thirds of it. Longer runs fit less often between two disturbances."""
MARGIN = 2
"""Times as many undisturbed repetitions as are needed should be in a round, by what the round before had."""
MOST_REPETITIONS = 64
"""Of a round: half a millisecond per size, about twice of what all the rest of a round takes."""
WARM_UP, WARM_UP_SHARE = 8, 4
"""This many iterations go first and do not count; where there are few, a quarter more. Meanwhile the µop cache fills.

Without them blocks seem slower, and more so the fewer iterations there are. On an Ice Lake, six instructions with two
CMOVs take 1.68 cycles with 48 iterations and 1.46 with 128. With eight that do not count they take 1.33 with either.
"""
TOO_SHORT = 3
"""A run that is shorter by this factor starts anew."""
MOST_ROUNDS_OF_LOOP = 400
MOST_STEPS, SETTLED_COPIES = 100, 2
"""Instructions that are stepped through for accesses across cache lines; copies, if all addresses stay the same."""
LOOP_ITERATIONS = 100


class BlockMode(StrEnum):
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
    modes: tuple[BlockMode, ...] = (BlockMode.UNROLLED,)
    repetitions: int = 8
    enough: int = 3
    rounds: int = 24
    time_limit_seconds: float = 0.5
    patience_seconds: float = 5.0
    patience_ratio: float = 1.0
    may_call: bool = False


@dataclass(frozen=True, slots=True)
class BlockResult:
    """What a block takes, by mode."""

    code: bytes
    timings: dict[BlockMode, BlockTiming]

    @property
    def unrolled(self) -> BlockTiming:
        """The block copied many times."""
        return self.timings[BlockMode.UNROLLED]


@dataclass(slots=True)
class _Entry:
    """A block in one mode while it is measured."""

    block: Microbenchmark
    shape: BlockShape
    mode: BlockMode
    rounds: BlockRounds = field(default_factory=BlockRounds)
    timing: BlockTiming | None = None
    remark: str = ""


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
        patience = Patience(self.options.patience_seconds, self.options.patience_ratio)
        self._watch = Watch.of(self.info, patience, loads_beside=False)
        self._quiet = self._watch.quiet
        self._quiet_share = 1.0
        self._rounds = 0

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
        timings: list[dict[BlockMode, BlockTiming]] = [{} for _ in batch]
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
        self._try([entry for entry in entries if entry.timing is None])
        while active := [entry for entry in entries if entry.timing is None]:
            started = time.monotonic()
            is_again = all(entry.rounds.count >= USUAL_ROUNDS for entry in active)
            self._run_round(active)
            self._watch.patience.count(time.monotonic() - started, is_again=is_again)
            for entry in active:
                self._judge(entry)
            without = [entry for entry in active if entry.timing is None and not all(entry.rounds.times)]
            if self._quiet and 2 * len(without) > len(active):
                self._watch.patience.wait(self._looks_quiet)

    def _misaligned(self, blocks: Sequence[Microbenchmark], shapes: Sequence[BlockShape]) -> list[str]:
        """Return for each block which access crosses a cache line ("": none does, or it is not known)."""
        remarks = [""] * len(blocks)
        if self.info.is_model:
            return remarks
        numbers = [number for number, shape in enumerate(shapes) if shape.uses_memory and not shape.problem]
        asked = Conditions(state=State.AGAIN, value=self.options.value, may_call=self.options.may_call, stepped=True)
        copies = [_stepped_copies(shapes[number]) for number in numbers]
        jobs = [Job(blocks[number], count, 1, conditions=asked) for number, count in zip(numbers, copies, strict=True)]
        results = self.backend.run(jobs, self._clock, Repeat(0, 1, self.options.time_limit_seconds)) if jobs else []
        for number, result in zip(numbers, results, strict=True):
            if result.status is Status.OK:
                remarks[number] = result.detail
        return remarks

    def _try(self, entries: Sequence[_Entry]) -> None:
        """Run each block for a moment: one that faults is done with, and the others get their iterations.

        Simulated machines count exactly and have memory everywhere: there blocks run once, with unknown registers.
        """
        for entry in entries:
            entry.rounds.copies, entry.rounds.is_loop = _copies(entry), entry.mode is BlockMode.LOOP
        jobs = [self._job(entry, 1, PROBE_ROUNDS) for entry in entries]
        repeat = Repeat(1, 3, self.options.time_limit_seconds)
        for entry, result in zip(entries, self.backend.run(jobs, self._clock, repeat), strict=True):
            if result.status is not Status.OK:
                entry.timing = BlockTiming(result.status, reason=result.detail, problem=BlockProblem.NOT_RUN)
                continue
            entry.rounds.iterations = _iterations(entry, self._cycles(result.samples) / PROBE_ROUNDS)
            if self.info.is_model:
                entry.rounds.iterations = LOOP_ITERATIONS if entry.mode is BlockMode.LOOP else 1

    def _job(self, entry: _Entry, size: int, iterations: int) -> Job:
        is_loop = entry.mode is BlockMode.LOOP
        if self.info.is_model:
            conditions = Conditions(loop_register=entry.shape.free if is_loop else "r15")
            return Job(entry.block, entry.rounds.copies[size], LOOP_ITERATIONS if is_loop else 0, conditions=conditions)
        conditions = Conditions(
            state=State.GIVEN if is_loop else State.AGAIN,
            loop_register=entry.shape.free if is_loop else "r15",
            value=self.options.value,
            keeps_pages=size == 0,
            may_call=self.options.may_call,
            warm_up=0 if is_loop else min(WARM_UP, -(-iterations // WARM_UP_SHARE)),
        )
        return Job(entry.block, entry.rounds.copies[size], iterations, conditions=conditions)

    def _run_round(self, active: Sequence[_Entry]) -> None:
        """Run both sizes of these blocks; the larger one first, which touches all pages that the smaller one does.

        In each round the blocks are in another order, so that their code is in other physical pages.
        """
        shift = SHIFT * self._rounds % len(active)
        self._rounds += 1
        active = [*active[shift:], *active[:shift]]
        jobs = [self._job(entry, size, entry.rounds.iterations) for entry in active for size in (1, 0)]
        repeat = Repeat(1, self._repetitions(), self.options.time_limit_seconds)
        results = iter(self.backend.run(jobs, self._clock, repeat))
        pairs = [(entry, next(results), next(results)) for entry in active]
        if self._quiet:
            good = (result for _, *both in pairs for result in both if result.status is Status.OK)
            seen = [Repetitions.of(result.samples) for result in good]
            self._quiet.learn(*seen)
            self._quiet_share = sum(map(self._quiet.count, seen)) / max(1, sum(len(one.ratios) for one in seen))
        for entry, large, small in pairs:
            self._take(entry, large, small)

    def _repetitions(self) -> int:
        """Return how many repetitions the next round has: more where few were undisturbed in the last one."""
        if not self._quiet:
            return self.options.repetitions
        wanted = MARGIN * self.options.enough / max(self._quiet_share, 1 / MOST_REPETITIONS)
        return max(self.options.repetitions, min(MOST_REPETITIONS, round(wanted)))

    def _take(self, entry: _Entry, large: JobResult, small: JobResult) -> None:
        """Take in one round of a block."""
        entry.rounds.count += 1
        for result in (large, small):
            if result.status is not Status.OK:
                entry.timing = BlockTiming(result.status, reason=result.detail, problem=BlockProblem.NOT_RUN)
                return
        for size, result in enumerate((small, large)):
            samples, is_quiet = result.samples, True
            if self._quiet:
                repetitions = Repetitions.of(samples)
                is_quiet = self._quiet.count(repetitions) >= self.options.enough
                samples = self._quiet.undisturbed(samples, repetitions, self.options.enough)
            times = entry.rounds.times if is_quiet else entry.rounds.disturbed
            times[size].append(self._cycles(samples))
        self._resize(entry)

    def _resize(self, entry: _Entry) -> None:
        """Start anew with more iterations where a run is far shorter than it should be: its trial run was disturbed."""
        rounds = entry.rounds
        longest = max((time for times in (rounds.times, rounds.disturbed) for time in times[1]), default=TARGET_CYCLES)
        if rounds.count == 1 and not self.info.is_model and longest < TARGET_CYCLES / TOO_SHORT:
            iterations = _iterations(entry, longest / rounds.iterations)
            entry.rounds = BlockRounds(rounds.copies, iterations, count=1, is_loop=rounds.is_loop)

    def _cycles(self, samples: Mapping[str, Sequence[int]]) -> float:
        """Return the core cycles of a run: the mean between the quartiles, which few odd repetitions move little."""
        if "core_cycles" in samples:
            return _middle(samples["core_cycles"])
        return _middle(samples["tsc"]) * self.info.calibration_core_cycles / max(1.0, _middle(samples["calibration"]))

    def _judge(self, entry: _Entry) -> None:
        """Decide whether a block is done."""
        if entry.timing is not None:
            return
        rounds = entry.rounds
        usual = USUAL_ROUNDS if entry.shape.uses_memory and not self.info.is_model else LEAST_ROUNDS
        if rounds.count >= usual and min(map(len, rounds.times)) >= usual // 2:
            entry.timing = rounds.agreed_timing(entry.remark)
        if entry.timing is None and rounds.count >= (
            self.options.rounds if self._watch.patience.is_left else USUAL_ROUNDS
        ):
            entry.timing = rounds.last_timing(entry.remark)

    def _looks_quiet(self) -> bool:
        return looks_quiet(self._watch, self.backend, self.options.time_limit_seconds)


def _stepped_copies(shape: BlockShape) -> int:
    """Return how many copies to step through: two if no address moves on, since some change after the first copy."""
    most = max(1, MOST_STEPS // shape.instructions)
    return most if shape.moves else min(SETTLED_COPIES, most)


def _iterations(entry: _Entry, cycles: float) -> int:
    """Return how often to run the copies of the larger size, which take `cycles` cycles."""
    most = LOOP_ITERATIONS if entry.mode is BlockMode.LOOP else MOST_ROUNDS_OF_LOOP
    return max(1, min(most, round(TARGET_CYCLES / max(1.0, cycles))))


def _middle(samples: Sequence[int]) -> float:
    """Return the mean between the quartiles; of three or four values without the extreme ones."""
    ordered = sorted(samples)
    cut = max(len(ordered) // 4, int(len(ordered) > 2))
    inner = ordered[cut : len(ordered) - cut]
    return sum(inner) / len(inner) if inner else 0.0


def _copies(entry: _Entry) -> tuple[int, int]:
    """Return the copies of the two sizes."""
    size, lines = len(entry.block.body_code), entry.shape.instructions
    if entry.mode is BlockMode.LOOP:
        few = max(1, LOOP_INSTRUCTIONS // lines)
        return few, few * LOOP_GROWTH
    few = -(-FEW_INSTRUCTIONS // lines)
    many = few + max(4, -(-MORE_INSTRUCTIONS // lines))
    most = max(2, CODE_BYTES // size)
    return (few, many) if many <= most else (max(1, most // 3), most)


def _refusal(entry: _Entry) -> BlockTiming | None:
    """Return why a block cannot be measured at all."""
    problem, size = entry.shape.problem, len(entry.block.body_code)
    if not problem and entry.mode is BlockMode.LOOP and not entry.shape.free:
        problem = BlockProblem.NO_REGISTER
    if not problem and 2 * size > CODE_BYTES:
        return BlockTiming(
            Status.REFUSED,
            reason=f"{size} bytes are too many for the instruction cache",
            problem=BlockProblem.TOO_LONG,
        )
    return BlockTiming(Status.REFUSED, reason=problem.value, problem=problem) if problem else None
