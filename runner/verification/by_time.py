"""Compares port usages that were inferred by time alone with the truth of simulated machines.

No time says which port is which, so names count up to renaming: one renaming has to do for all answers about a machine.
Sets as wide as the issue width cannot be kept busy, so µops of theirs cannot be seen. A usage is alike in time if no
mix tells it from the truth.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from itertools import combinations, product
from typing import TYPE_CHECKING

from inference.characterizer import CandidateCache, Characterizer
from inference.ports.by_time.counterparts import infer_beside_registers, time_alone
from inference.ports.by_time.mixes import MixFactory
from results.findings import Indistinguishable, OnlyBounds, Unplaced
from results.model import PortUsage
from results.ports import confined, joined, renamed, scaled, throughput_of
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session, Task
from runner.verification.judge import visible_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from inference.experiment import Procedure
    from inference.ports.by_time.machine import TimedMachine
    from inference.ports.infer import PortConclusion
    from results.ports import PortSet
    from runner.backends.sim import SimBackend
    from runner.measuring.session import MeasurementSource
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant

MANY = 1000
"""Blocking instructions: far more µops than one instruction has."""

MIXED = 5
"""Different instructions in the mixes that are predicted."""

INSTANCES = 6
"""Instances of an instruction in the mixes that may tell two usages apart."""

BESIDE = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48)
"""Instructions of a set in these mixes: up to as many as four ports do while one port does all instances twice."""

NEAR = Fraction(2, 100)
"""A mix is predicted right if the linear program's time is that near to the true one."""


MOST_LEFT_OUT = 2
"""Sets that may be other ones than the model's, for the rest to be compared."""


class Verdict(StrEnum):
    """How an answer compares with the truth."""

    RIGHT = "stated right"
    ALIKE = "stated otherwise, and alike in time"
    VISIBLE = "visible part right"
    NAMED = "named, the truth among them"
    NAMED_OTHERS = "named without the truth"
    UNSTATED = "not stated"
    WRONG = "stated wrong"


@dataclass
class MachineFigures:
    """The figures of one machine: verdicts, the mixes predicted within `NEAR` and all of them, and what was not right.

    `answers` are the verdicts by variant. `renaming` says what the names of inference stand for; None: nothing that is
    right for the basic sets.
    """

    machine: str
    answers: dict[str, Verdict] = field(default_factory=dict)
    mixes_near: int = 0
    mixes: int = 0
    measurements: int = 0
    renaming: Renaming | None = None
    exceptions: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How many variants have each verdict."""
        return Counter(self.answers.values())

    @property
    def variants(self) -> int:
        """How many variants were asked about."""
        return len(self.answers)


def run(
    backend: SimBackend,
    catalogue: Catalogue,
    variants: Sequence[InstructionVariant],
    cache: CandidateCache | None = None,
    source: MeasurementSource | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MachineFigures:
    """Infer the ports of variants of a simulated machine without counters, and compare.

    Args:
        backend: the machine, with its counters hidden.
        catalogue: where blocking instructions come from.
        variants: what is asked about.
        cache: candidates of the same catalogue.
        source: where measurements of this machine are kept (None: nowhere).
        progress: called with the variants that are done and with all of them.
    """
    session = Session(Measurer(backend), source, limits=Limits(keep_raw=False))
    characterizer = Characterizer(catalogue, backend.info().capabilities, candidates=cache, by_time=True)
    context = session.run_one(characterizer.prepare())
    outcome = MachineFigures(backend.machine.name)
    if context.timed is None or not context.timed.sets:
        outcome.answers = dict.fromkeys((one.string for one in variants), Verdict.UNSTATED)
        return outcome
    outcome.renaming = renaming_of(context.timed, backend, catalogue)
    basic = {
        context.timed.public(one.ports): backend.machine.truth(catalogue.by_string(one.members[0])).ports
        for one in context.timed.sets
    }
    mixes = MixFactory(context.instructions)
    by_key = {variant.key: variant for variant in variants}
    tasks = (Task(one.key, _infer(context.timed, mixes, one)) for one in variants)
    known: list[tuple[PortUsage, PortUsage]] = []
    for finished in session.run(tasks):
        outcome.measurements += len(finished.requests)
        _count(outcome, by_key[finished.name], finished.result, backend, basic, known)
        if progress is not None:
            progress(len(outcome.answers), len(variants))
    _predict(outcome, known)
    return outcome


def _infer(timed: TimedMachine, mixes: MixFactory, variant: InstructionVariant) -> Procedure[PortConclusion | None]:
    cycles = yield from time_alone(variant, mixes.instructions)
    return None if cycles is None else (yield from infer_beside_registers(timed, mixes, variant, cycles, Fraction(0)))


def _count(
    outcome: MachineFigures,
    variant: InstructionVariant,
    found: PortConclusion | None,
    backend: SimBackend,
    basic: Mapping[PortSet, PortUsage],
    known: list[tuple[PortUsage, PortUsage]],
) -> None:
    model = backend.machine.truth(variant)
    # What is eliminated in part may be seen with its port or without
    truth = PortUsage({}) if model.eliminated_share else visible_ports(model)
    usages = _usages_of(found)
    if outcome.renaming is None or not outcome.renaming.has_all_of(usages):
        is_like = _comparison(truth, basic)
        verdict = _verdict(found, usages, is_like, is_like)
        # Nothing shows that ports without true names are the right ones
        verdict = Verdict.VISIBLE if verdict is Verdict.RIGHT else verdict
    else:
        usages = [renamed(usage, outcome.renaming.names) for usage in usages]
        verdict = _renamed_verdict(found, usages, truth, outcome.renaming)
        if found is not None and found.usage is not None:
            known.append((usages[0], truth))
    outcome.answers[variant.string] = verdict
    if verdict not in {Verdict.RIGHT, Verdict.ALIKE, Verdict.VISIBLE, Verdict.NAMED}:
        outcome.exceptions.append((variant.string, verdict.value, _said(found, usages), str(truth)))


def _usages_of(found: PortConclusion | None) -> list[PortUsage]:
    """Return the usage that is stated, the part that is visible, or all that are named; none where there are bounds."""
    if found is None:
        return []
    if found.usage is not None:
        return [found.usage]
    if isinstance(found.failure, Unplaced):
        return [found.failure.usage]
    return list(found.failure.usages) if isinstance(found.failure, Indistinguishable) else []


def _verdict(
    found: PortConclusion | None,
    usages: Sequence[PortUsage],
    is_true: Callable[[PortUsage], bool],
    is_visible: Callable[[PortUsage], bool],
) -> Verdict:
    """Return the verdict on usages; `is_visible` tells whether one is the part of the truth that shows."""
    if found is None or not usages:
        return Verdict.UNSTATED
    if found.usage is not None:
        return Verdict.RIGHT if is_true(usages[0]) else Verdict.WRONG
    if isinstance(found.failure, Unplaced):
        return Verdict.VISIBLE if is_visible(usages[0]) else Verdict.WRONG
    return Verdict.NAMED if any(is_true(one) or is_visible(one) for one in usages) else Verdict.NAMED_OTHERS


def _renamed_verdict(
    found: PortConclusion | None, usages: Sequence[PortUsage], truth: PortUsage, renaming: Renaming
) -> Verdict:
    """Return the verdict on usages with true names. What is not the truth may be alike in time."""
    visible = seen(truth, renaming.shown)
    verdict = _verdict(found, usages, truth.__eq__, visible.__eq__)
    is_part = found is not None and found.usage is None
    if verdict is Verdict.WRONG and are_alike(usages[0], visible if is_part else truth, renaming.found):
        return Verdict.ALIKE
    if verdict is Verdict.NAMED_OTHERS and renaming.found != renaming.shown:
        # A set that is no set of the model's is in all of them
        others = (truth, visible)
        is_named = any(are_alike(usage, other, renaming.found) for usage in usages for other in others)
        return Verdict.NAMED if is_named else verdict
    return verdict


def _said(found: PortConclusion | None, usages: Sequence[PortUsage]) -> str:
    """Return what inference said, in short."""
    if found is not None and isinstance(found.failure, OnlyBounds):
        return "bounds"
    slots = f" of {found.failure.slots}" if found is not None and isinstance(found.failure, Unplaced) else ""
    return " or ".join(map(str, usages)) + slots


def _comparison(truth: PortUsage, basic: Mapping[PortSet, PortUsage]) -> Callable[[PortUsage], bool]:
    """Return what tells whether a usage is like the true one, if no renaming turns the basic sets into the model's.

    What blocking shows of a usage is compared with what it shows of the true one.
    """
    wanted = {ports: shown(usage, truth, len(ports)) for ports, usage in basic.items()}
    return lambda usage: all(confined(usage, ports) == uops for ports, uops in wanted.items())


def shown(blocker: PortUsage, usage: PortUsage, size: int) -> Fraction:
    """Return the µops that a usage seems to have on a set of `size` ports, which many instances of `blocker` block."""
    many = scaled(blocker, MANY)
    return (throughput_of(joined(many, usage)) - throughput_of(many)) * size


def seen(truth: PortUsage, sets: Collection[PortSet]) -> PortUsage:
    """Return the µops of a usage that are confined to any of these sets, which can be kept busy."""
    return PortUsage({ports: n for ports, n in truth.uops.items() if n and any(ports <= one for one in sets)})


def are_alike(one: PortUsage, other: PortUsage, sets: Collection[PortSet]) -> bool:
    """Whether instances of both usages take the same time beside any instructions of two of these sets, and alone."""
    for some in combinations(sorted(sets, key=sorted), min(2, len(sets))):
        for counts in product(BESIDE, repeat=len(some)):
            beside = PortUsage({ports: count for ports, count in zip(some, counts, strict=True) if count})
            times = [throughput_of(joined(scaled(usage, INSTANCES), beside)) for usage in (one, other)]
            if times[0] != times[1]:
                return False
    return True


def _predict(outcome: MachineFigures, known: Sequence[tuple[PortUsage, PortUsage]]) -> None:
    """Predict the port-bound time of random mixes of five from what was stated, and compare with the truth's."""
    source = random.Random(outcome.machine)
    for _ in range(4 * len(known) if len(known) >= MIXED else 0):
        chosen = source.sample(list(known), MIXED)
        found, true = PortUsage({}), PortUsage({})
        for one, other in chosen:
            found, true = joined(found, one), joined(true, other)
        outcome.mixes += 1
        outcome.mixes_near += abs(throughput_of(found) - throughput_of(true)) <= NEAR * throughput_of(true)


@dataclass(frozen=True)
class Renaming:
    """What names of inference stand for: the true `names` of ports, and the true sets that have them (`found`).

    `shown` are the true sets of all instructions that show one. There are more of them if no renaming is right for all.
    Ports only of these have no names.
    """

    names: Mapping[str, str]
    found: frozenset[PortSet]
    shown: frozenset[PortSet]

    def has_all_of(self, usages: Iterable[PortUsage]) -> bool:
        """Whether each port of these usages has a true name."""
        return all(port in self.names for usage in usages for ports in usage.uops for port in ports)


def renaming_of(timed: TimedMachine, backend: SimBackend, catalogue: Catalogue) -> Renaming | None:
    """Return the renaming with which most basic sets and all parts are the model's; None if `MOST_LEFT_OUT` differ.

    Sets of stores are the first to be left out. On Sandy Bridge a store needs p4, and p23 for its address. All mixes
    look as if stores had one of the ports of loads: two loads, or a load and a store, run per cycle. Of two sets that
    have more ports together than slots are issued, nothing shows how many are common.
    """
    machine = backend.machine
    truths = [visible_ports(machine.truth(catalogue.by_string(one.members[0]))) for one in timed.sets]
    stores_last = sorted(
        zip(timed.sets, truths, strict=True), key=lambda pair: pair[0].is_of_memory and not pair[0].is_of_loads
    )
    pairs = [
        (timed.public(one.ports), next(ports for ports in truth.uops if len(ports) == len(one.ports)))
        for one, truth in stores_last
        if len(one.ports) in map(len, truth.uops)
    ]
    may_differ = MOST_LEFT_OUT - (len(timed.sets) - len(pairs))
    shown = frozenset(true for _, true in pairs)
    parts = []
    for one in timed.parts:
        truth = visible_ports(machine.truth(one.example))
        parts += [(one.part, ports) for ports in truth.uops if len(ports) == len(one.part) and ports not in shown][:1]
    for count in range(may_differ + 1 if pairs else 0):
        for kept in combinations(pairs, len(pairs) - count):
            names = _names([*kept, *parts], machine.parameters.ports)
            if names is not None:
                return Renaming(names, frozenset(true for _, true in kept), shown)
    return None


def _names(pairs: Sequence[tuple[PortSet, PortSet]], ports: Sequence[str]) -> dict[str, str] | None:
    """Return true names of ports with which each set of inference is the true one beside it; None if there are none."""
    own_names = sorted(frozenset().union(*(own for own, _ in pairs)))

    def search(place: int, names: dict[str, str]) -> dict[str, str] | None:
        if place == len(own_names):
            return names
        name = own_names[place]
        for port in ports:
            if port not in names.values() and all((name in own) == (port in true) for own, true in pairs):
                found = search(place + 1, {**names, name: port})
                if found is not None:
                    return found
        return None

    return search(0, {})
