"""Simulated machines, with several processes: each has a backend and a session of its own, the parent alone writes.

Samples and conclusions of a chunk of variants come back together. The parent measures once what belongs to the machine
(blocking instructions), and gives it to every process. This needs a machine that gives the same answer each time, so a
real CPU is measured by one process.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection as connections
from typing import TYPE_CHECKING

from inference.characterizer import Characterizer
from results.processes import sensible_processes
from runner.backend import BackendError
from runner.backends.registry import open_backend
from runner.campaigns.concluded import concluded
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session, Task, sample_of
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UopscopeError
from xed_convert.garbage import collect_seldom

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection as Pipe
    from multiprocessing.context import SpawnProcess
    from pathlib import Path

    from generator.sequences.blocking import CodeKind
    from inference.context import Context
    from inference.experiment import Request
    from inference.ports.blocking_instructions import BlockingSet
    from inference.ports.by_time.machine import TimedMachine
    from results.campaign.records import Sample
    from results.model import Measurement
    from runner.campaigns.concluded import Concluded

CHUNK = 16
"""Variants that a process characterizes between two answers. A stopped process loses no more."""

AHEAD = 2
"""Chunks given to a process and not answered: one in work, and the next one."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)

PR_SET_PDEATHSIG = 1
"""prctl: the signal that a process gets when its parent dies (linux/prctl.h)."""


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """How many processes share a campaign, and which backend each of them opens."""

    processes: int
    backend: str
    architecture: str | None
    thorough: bool = False
    model: Path | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What a process needs to set itself up: the backend, the machine's blocking instructions, all variants."""

    plan: ProcessPlan
    keys: tuple[str, ...]
    blocking: Mapping[CodeKind, BlockingSet]
    timed: TimedMachine | None = None


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What a process found: samples, and what became of each variant."""

    samples: tuple[Sample, ...]
    results: tuple[Concluded, ...]


@dataclass(slots=True)
class _Memory:
    """A source of measurements that has none and collects what is new."""

    fresh: list[Sample] = field(default_factory=list)

    def lookup(self, _request: Request) -> Measurement | None:
        return None

    def save(self, measured: Sequence[tuple[Request, Measurement]]) -> None:
        for request, measurement in measured:
            self.fresh.append(sample_of(request, measurement))

    def take(self) -> tuple[Sample, ...]:
        taken, self.fresh = tuple(self.fresh), []
        return taken


@dataclass(slots=True)
class _Worker:
    """What one process works with."""

    catalogue: Catalogue
    characterizer: Characterizer
    context: Context
    session: Session
    memory: _Memory

    @classmethod
    def set_up(cls, order: Order) -> _Worker:
        catalogue = Catalogue.load()
        plan = order.plan
        measurer = Measurer(open_backend(plan.backend, architecture=plan.architecture, model=plan.model))
        memory = _Memory()
        session = Session(measurer, memory, Limits(keep_raw=False))
        characterizer = Characterizer(catalogue, measurer.info.capabilities, thorough=plan.thorough)
        return cls(catalogue, characterizer, characterizer.prepared(order.blocking, order.timed), session, memory)

    def work(self, keys: Sequence[str]) -> WorkerResult:
        variants = {key: self.catalogue.by_key(key) for key in keys}
        tasks = [Task(key, self.characterizer.characterize(one, self.context)) for key, one in variants.items()]
        results = tuple(concluded(variants[each.name], each) for each in self.session.run(tasks))
        return WorkerResult(self.memory.take(), results)


def _serve(order: Order, connection: Pipe) -> None:
    """Answer each list of keys with a chunk, until the other end is closed: what a process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    collect_seldom()
    try:
        worker = _Worker.set_up(order)
        while True:
            connection.send(worker.work(connection.recv()))
    except EOFError:
        return
    except UopscopeError as error:
        connection.send(str(error))


@dataclass(slots=True)
class _Process:
    """A process, the way to it, and which chunks it works on."""

    process: SpawnProcess
    connection: Pipe
    numbers: deque[int] = field(default_factory=deque)

    def answer(self) -> WorkerResult:
        """Return the chunk that the process has sent.

        Raises:
            BackendError: it could not be set up, or was killed.
        """
        try:
            answer = self.connection.recv()
        except (EOFError, OSError) as error:
            raise BackendError(
                "a process of the campaign ended early", hint="too little memory? Try fewer --jobs"
            ) from error
        if isinstance(answer, str):
            raise BackendError(f"a process of the campaign could not be set up: {answer}")
        assert isinstance(answer, WorkerResult)
        return answer


def run(order: Order) -> Iterator[WorkerResult]:
    """Yield what the processes find, chunk by chunk in the order of the keys; kill them when the caller stops.

    Raises:
        BackendError: a process could not be set up, or was killed.
    """
    keys = order.keys
    chunks = [keys[start : start + CHUNK] for start in range(0, len(keys), CHUNK)]
    with _processes(order, sensible_processes(order.plan.processes, len(chunks))) as processes:
        yield from _in_order(chunks, processes)


def _in_order(chunks: Sequence[Sequence[str]], processes: Sequence[_Process]) -> Iterator[WorkerResult]:
    """Keep every process at work, and yield the answers in the order of the chunks."""
    waiting = deque(enumerate(chunks))
    answers: dict[int, WorkerResult] = {}
    by_connection = {process.connection: process for process in processes}
    for number in range(len(chunks)):
        while number not in answers:
            for process in processes:
                while waiting and len(process.numbers) < AHEAD:
                    at, keys = waiting.popleft()
                    process.connection.send(keys)
                    process.numbers.append(at)
            for ready in connections.wait(list(by_connection)):
                process = by_connection[ready]  # type: ignore[index] # it waits for what it was given
                answer = process.answer()
                answers[process.numbers.popleft()] = answer
        yield answers.pop(number)


@contextmanager
def _processes(order: Order, count: int) -> Iterator[list[_Process]]:
    """Start so many processes; kill them when the block ends.

    Each has a pipe of its own: a process that is killed while it answers blocks no other one.
    """
    started: list[_Process] = []
    try:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # none may be started and then not be known
        try:
            started += [_start(order) for _ in range(count)]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield started
    finally:
        for one in started:
            one.process.kill()
            one.connection.close()
        for one in started:
            one.process.join()


def _start(order: Order) -> _Process:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(order, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Process(process, ours)
