"""What is concluded about one variant, in the making."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inference.throughput import COUNTED, Sequence, derivation_of, rounded_count
from results.model import Characterization, Derivation, PortUsage, Throughput
from results.ports import throughput_of

if TYPE_CHECKING:
    from fractions import Fraction

    from inference.experiment import Measured
    from inference.ports.infer import PortConclusion
    from inference.throughput import Search
    from results.model import LatencyResult
    from xed_convert.model import InstructionVariant


@dataclass
class Draft:
    """A characterization in the making."""

    variant: InstructionVariant
    uops: int | None = None
    ports: PortUsage | None = None
    ports_same_register: PortUsage | None = None
    ports_indexed: PortUsage | None = None
    throughput: Throughput = field(default_factory=Throughput)
    throughput_same_register: Throughput | None = None
    throughput_indexed: Throughput | None = None
    macro_fusible: tuple[str, ...] | None = None
    first: Sequence | None = None
    fastest: Sequence | None = None
    fastest_loop: Sequence | None = None
    attributes: dict[str, int] = field(default_factory=dict)
    latencies: tuple[LatencyResult, ...] = ()
    failures: list[str] = field(default_factory=list)
    derivations: list[Derivation] = field(default_factory=list)

    def finish(self) -> Characterization:
        """Return the conclusions."""
        return Characterization(
            key=self.variant.key,
            string=self.variant.string,
            iform=self.variant.iform,
            uops=self.uops,
            ports=self.ports,
            ports_same_register=self.ports_same_register,
            throughput=self.throughput,
            throughput_same_register=self.throughput_same_register,
            ports_indexed=self.ports_indexed,
            throughput_indexed=self.throughput_indexed,
            macro_fusible=self.macro_fusible,
            latencies=self.latencies,
            attributes=self.attributes,
            failures=tuple(dict.fromkeys(self.failures)),
            derivations=tuple(self.derivations),
        )

    def note_uops(self, search: Search, prologues: Measured | None) -> None:
        """Take over the µop counters of the first sequence, without those of what stands around each instance."""
        first = search.unrolled[0]
        counts = {name: rounded_count(first.per_instruction(name)) for name in COUNTED}
        if prologues is not None:
            others = Sequence(first.shape, prologues)
            counts = {name: rounded_count(_difference(first, others, name)) for name in COUNTED} if prologues.ok else {}
        self.uops = counts.pop("uops_executed", None)
        self.attributes.update({name: count for name, count in counts.items() if count is not None})

    def note_ports(self, conclusion: PortConclusion, search: Search) -> None:
        """Note the derivation of a port usage, or why there is none; µops are those that ports count."""
        first = search.unrolled[0]
        busy = [
            f"{name} {float(count):.2f}"
            for name in sorted(first.measured.values)
            if name[0] == "p" and (count := first.per_instruction(name)) is not None and count > 0
        ]
        text = [f"alone: {', '.join(busy) or 'no port'}"]
        subtracted = ""
        if conclusion.answers:
            text.append(conclusion.answers)
            subtracted = ", each set's µops less those of its subsets"
        text.append(conclusion.failure if conclusion.usage is None else f"= {conclusion.usage}{subtracted}")
        if conclusion.stage:
            text.append(f"decided by the stage: {conclusion.stage}")
        name = f"ports{search.suffix}"
        experiments = (first.measured.request.benchmark.id, *conclusion.experiments)
        self.derivations.append(Derivation(name, "\n".join(text), experiments))
        if conclusion.failure:
            self.failures.append(f"ports: {conclusion.failure}")
        if conclusion.usage is not None and self.uops is None and not search.suffix:
            self.uops = conclusion.usage.total

    def note_throughput(self, search: Search) -> Throughput:
        """Note which sequences of a search there were; return its least times and what the ports allow."""
        unrolled = search.best()
        looped = search.least(search.looped)
        for name, sequences in (("TP_unrolled", search.unrolled), ("TP_loop", search.looped)):
            if sequences:
                self.derivations.append(derivation_of(name + search.suffix, sequences, search))
        ports = {"": self.ports, "_same_reg": self.ports_same_register, "_indexed": self.ports_indexed}[search.suffix]
        return Throughput(
            unrolled.cycles if unrolled else None,
            looped.cycles if looped else None,
            throughput_of(ports) if ports is not None else None,
            unrolled.spread if unrolled else None,
            looped.spread if looped else None,
        )


def _difference(first: Sequence, others: Sequence, counter: str) -> Fraction | None:
    """Return by how much one sequence counts more than another, per instruction."""
    more, less = first.per_instruction(counter), others.per_instruction(counter)
    return None if more is None or less is None else more - less
