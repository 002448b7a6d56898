"""A tiny core for tests of inference alone: instructions are lists of port sets, and nothing depends on anything.

Each µop gets its port when it is issued, the one with the shortest queue (of those, the least used); each port takes
one µop per cycle. It shares nothing with the simulated machines of the product.
"""

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from generator.errors import AllocationError
from generator.microbenchmark import Line, Microbenchmark
from inference.experiment import Measured, Request
from inference.ports.alone.layout import PortLayout
from inference.ports.blocking import find_blocking
from inference.ports.blocking_instructions import Blockers, BlockingInstruction, BlockingSet, Candidate
from results.model import PortUsage, Status
from results.ports import PortSet
from xed_convert.model import InstructionVariant, MemoryShape, Operand, OperandKind

Result = TypeVar("Result")


def variant(name: str) -> InstructionVariant:
    """Return an instruction: LOAD and STORE have a memory operand, all others have no operands."""
    memory = (Operand(1, OperandKind.MEMORY, memory=MemoryShape()),) if name in ("LOAD", "STORE") else ()
    return InstructionVariant(name, name, name, name, "TEST", "BASE", "TEST", 3, {}, memory)


def line(name: str) -> Line:
    return Line(name.encode() + b";", name, name)


def sequence(name: str, count: int = 8) -> Microbenchmark:
    return Microbenchmark((), (line(name),) * count, name, divisor=count)


@dataclass(frozen=True)
class Oracle:
    """A core: its port counters, its instructions' µops, issue width, scheduler entries."""

    layout: PortLayout
    instructions: Mapping[str, Sequence[PortSet]]
    width: int = 6
    entries: int = 60

    def measure(self, request: Request) -> Measured:
        body = [self.instructions[one.key] for one in request.benchmark.body]
        few, many = self.run(body, 10), self.run(body, 50)
        values = {name: Fraction(many[name] - few[name], 40) for name in many}
        return Measured(request, Status.OK, values, {})

    def run(self, body: Sequence[Sequence[PortSet]], copies: int) -> dict[str, int]:
        order = [tuple(sorted(able)) for uops in body for able in uops]
        waiting = deque(order * copies)
        queues = dict.fromkeys(sorted(self.layout.ports), 0)
        given = dict.fromkeys(queues, 0)
        cycles = held = 0
        while waiting or held:
            for _ in range(min(self.width, self.entries - held, len(waiting))):
                able = waiting.popleft()
                port = min(able, key=lambda one: (queues[one], given[one]))
                queues[port] += 1
                given[port] += 1
                held += 1
            for port, length in queues.items():
                if length:
                    queues[port] -= 1
                    held -= 1
            cycles += 1
        counted = {name: sum(given[port] for port in ports) for name, ports in self.layout.counters.items()}
        return {**counted, "core_cycles": cycles}

    def answer(self, procedure: Generator[Sequence[Request], Sequence[Measured], Result]) -> tuple[Result, int]:
        """Run a procedure to its end; also return how many measurements it took."""
        count = 0
        reply: Any = None
        while True:
            try:
                requests = procedure.send(reply)
            except StopIteration as stop:
                return stop.value, count
            count += len(requests)
            reply = [self.measure(request) for request in requests]

    def blocking(self, stores: Sequence[str] = ()) -> BlockingSet:
        names = [name for name, uops in self.instructions.items() if len(uops) == 1 or name in stores]
        candidates = [Candidate(variant(name), sequence(name), name in stores) for name in names]
        found, _ = self.answer(find_blocking(candidates, self.layout, BlockersAlone(), issued=self.width))
        return found


class BlockersAlone:
    """Code of blocking instructions alone, of which none waits for another."""

    def mix(self, blockers: Sequence[tuple[InstructionVariant, int]]) -> Microbenchmark:
        return Microbenchmark((), tuple(line(one.iform) for one, count in blockers for _ in range(count)), "mixture")

    def delay(self) -> Microbenchmark:
        return Microbenchmark((), (), "nothing to wait for")

    def released(self, store: InstructionVariant, count: int) -> Microbenchmark:
        return sequence(store.iform, count)

    def followed(
        self, blockers: tuple[InstructionVariant, int], first: InstructionVariant, second: InstructionVariant
    ) -> Microbenchmark:
        raise AllocationError(f"{second.iform} does not wait for {first.iform} behind {blockers[0].iform}")

    def control(
        self, blockers: Sequence[tuple[InstructionVariant, int]], other: InstructionVariant, count: int
    ) -> Microbenchmark:
        lines = [line(one.iform) for one, number in blockers for _ in range(number)]
        return Microbenchmark((), (*lines, *[line(other.iform)] * count), "control")


@dataclass(frozen=True)
class Named:
    """The subject of an inference: an instruction by name."""

    name: str
    extra: PortUsage = PortUsage({})  # noqa: RUF009 (it is never changed)

    def more(self) -> Microbenchmark:
        return sequence(self.name, 16)

    def combined(self, blockers: Blockers, *, reverse: bool = False) -> Microbenchmark:
        blocked = lines_of(blockers)
        body = [line(self.name), *blocked] if reverse else [*blocked, line(self.name)]
        return Microbenchmark((), tuple(body), "combination")

    def control(self, blockers: Blockers, other: BlockingInstruction, count: int) -> Microbenchmark:
        return Microbenchmark((), (*lines_of(blockers), *[line(other.variant.iform)] * count), "control")


def lines_of(blockers: Blockers) -> list[Line]:
    pairs = zip(blockers.instructions, blockers.counts, strict=True)
    return [line(one.variant.iform) for one, count in pairs for _ in range(count)]


def machine(counters: str, instructions: Mapping[str, str], **options: int) -> Oracle:
    """`machine("p0 p1 p23", {"ADD": "1*p01"})`."""
    layout = PortLayout.of(counters.split())
    uops = {name: uops_of(PortUsage.parse(text)) for name, text in instructions.items()}
    return Oracle(layout, uops, **options)


def uops_of(usage: PortUsage) -> list[PortSet]:
    return [ports for ports, count in usage.uops.items() for _ in range(count)]
