"""Collects the conclusions about one variant, with their derivations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from inference.throughput import UNIT, Sequence, counted_names, derivation_of, rounded_count
from results.findings import DecidedBy, LoadAlone, NoPorts, PortsFound
from results.model import Characterization, Derivation, Failure, Form, FormResult, Step, Throughput
from results.ports import throughput_of

if TYPE_CHECKING:
    from fractions import Fraction

    from inference.experiment import Measured
    from inference.ports.infer import PortConclusion
    from inference.throughput import Search
    from results.model import LatencyResult, PortUsage
    from xed_convert.model import InstructionVariant

BY_TIME = "ports_by_time"
"""This attribute marks ports that were found by time alone. They may have made-up names (r0, r1 ...), not the vendor's.
"""

ELIMINATED = "eliminated_percent"
"""This attribute is the share of instances, in percent, that rename eliminates, where counters show that it does."""


@dataclass
class ConclusionBuilder:
    """What is concluded about one variant so far.

    - `first`: the sequence in which µops were counted.
    - `prologues`: what must stand beside each instance, measured alone (None: nothing must).
    - `fastest`, `fastest_loop`: the fastest sequences of the plain form, unrolled and in a loop (None: there is none).
    """

    variant: InstructionVariant
    uops: int | None = None
    forms: dict[Form, FormResult] = field(default_factory=lambda: {Form.PLAIN: FormResult()})
    macro_fusible: tuple[str, ...] | None = None
    first: Sequence | None = None
    prologues: Measured | None = None
    fastest: Sequence | None = None
    fastest_loop: Sequence | None = None
    attributes: dict[str, int] = field(default_factory=dict)
    latencies: tuple[LatencyResult, ...] = ()
    failures: list[Failure] = field(default_factory=list)
    derivations: list[Derivation] = field(default_factory=list)

    def build(self) -> Characterization:
        """Return the conclusions."""
        return Characterization(
            key=self.variant.key,
            string=self.variant.string,
            iform=self.variant.iform,
            uops=self.uops,
            forms=self.forms,
            macro_fusible=self.macro_fusible,
            latencies=self.latencies,
            attributes=self.attributes,
            failures=tuple(one for number, one in enumerate(self.failures) if one not in self.failures[:number]),
            derivations=tuple(self.derivations),
        )

    def note_uops(self, search: Search) -> None:
        """Note the µop counts of the first sequence, without those of prologue and epilogue of each instance."""
        first = search.unrolled[0]
        names = counted_names(first.measured.values)
        counts = {name: rounded_count(first.per_instruction(name)) for name in names}
        if self.prologues is not None:
            alone = Sequence(first.shape, self.prologues)
            counts = {name: rounded_count(_difference(first, alone, name)) for name in names}
            counts = counts if self.prologues.ok else {}
        self.uops = counts.pop("uops_executed", None)
        known = {name: count for name, count in counts.items() if count is not None}
        self.attributes.update({name: count for name, count in known.items() if count or not name.startswith(UNIT)})

    def note_ports(self, conclusion: PortConclusion, search: Search, *, counts_all: bool = True) -> None:
        """Note the port usage of a form with its derivation, or why there is none.

        If nothing else counts µops, those of the ports are the µops of the variant, unless some ports have no counters
        (`counts_all`).
        """
        first = search.unrolled[0]
        counts = {name: first.per_instruction(name) for name in sorted(first.measured.values) if name[0] == "p"}
        alone = LoadAlone({name: count for name, count in counts.items() if count})
        steps: list[Step] = [alone, *conclusion.steps]
        if conclusion.usage is not None:
            steps.append(PortsFound(conclusion.usage, subtracted=bool(conclusion.steps)))
        if conclusion.stage:
            steps.append(DecidedBy(conclusion.stage))
        experiments = (first.measured.request.benchmark.id, *conclusion.experiments)
        self.derivations.append(Derivation(f"ports{search.form.suffix}", tuple(steps), experiments))
        if conclusion.failure is not None:
            self.failures.append(NoPorts(search.form, conclusion.failure))
        if conclusion.usage is not None and self.uops is None and search.form is Form.PLAIN and counts_all:
            self.uops = conclusion.usage.total
        self._put(search.form, ports=conclusion.usage)

    def note_timed(self, conclusion: PortConclusion) -> None:
        """Note the port usage of the plain form that was found by time alone, or why there is none."""
        steps: list[Step] = [*conclusion.steps]
        if conclusion.usage is not None:
            steps.append(PortsFound(conclusion.usage, subtracted=True))
            self.attributes[BY_TIME] = 1
            throughput = replace(self.plain.throughput, ports=throughput_of(conclusion.usage))
            self._put(Form.PLAIN, ports=conclusion.usage, throughput=throughput)
        self.derivations.append(Derivation("ports", tuple(steps), conclusion.experiments))
        if conclusion.failure is not None:
            self.failures.append(NoPorts(Form.PLAIN, conclusion.failure))

    def further_uops(self, code: Measured, other: Measured) -> Fraction | None:
        """Return the µops that a copy of some code executes beyond other code and the variant (None: not counted)."""
        counts = [one.values.get("uops_executed") for one in (code, other)]
        if self.uops is None or counts[0] is None or counts[1] is None:
            return None
        return counts[0] - counts[1] - self.uops

    def _put(self, form: Form, **known: PortUsage | Throughput | None) -> None:
        """Add facts about a form."""
        self.forms[form] = replace(self.forms.get(form, FormResult()), **known)  # type: ignore[arg-type]

    @property
    def plain(self) -> FormResult:
        """What is known of the plain form."""
        return self.forms[Form.PLAIN]

    @property
    def is_eliminated(self) -> bool:
        """Whether rename eliminates instances of the plain form, some or all of them."""
        ports = self.plain.ports
        return ELIMINATED in self.attributes or (ports is not None and not ports.total)

    def note_throughput(self, search: Search) -> None:
        """Note the sequences of a search, their least times, and what the ports of the form allow."""
        unrolled = search.best()
        looped = search.least(search.looped)
        for name, sequences in (("TP_unrolled", search.unrolled), ("TP_loop", search.looped)):
            if sequences:
                self.derivations.append(derivation_of(name + search.form.suffix, sequences, search))
        ports = self.forms.get(search.form, FormResult()).ports
        throughput = Throughput(
            unrolled.cycles if unrolled else None,
            looped.cycles if looped else None,
            throughput_of(ports) if ports is not None else None,
            unrolled.spread if unrolled else None,
            looped.spread if looped else None,
            unrolled.rhythms if unrolled else (),
            looped.rhythms if looped else (),
        )
        self._put(search.form, throughput=throughput)


def _difference(first: Sequence, others: Sequence, counter: str) -> Fraction | None:
    """Return by how much one sequence counts more than another, per instruction."""
    more, less = first.per_instruction(counter), others.per_instruction(counter)
    return None if more is None or less is None else more - less
