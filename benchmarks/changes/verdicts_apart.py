"""Verdicts about parts of inference that counting the µops of variants does not reach: each has a machine of its own.

The first word of a machine's name says which part is judged:

| machine | what is judged |
|---|---|
| `time HSW` | ports by time alone, with the counters hidden |
| `decoders HSW` | decoders of made-up instructions, on the core's front end, by counters and by time |
| `decoders random:small:3` | variants of a machine without a front end, where no decoder may be stated |
| `divider SKX` | cycles on the divider, by time alone |
| `fusion HSW` | the jumps with which instructions fuse, by counters and by time |
| `forwarding renaming` | outcomes and cycles of store forwarding |
| `levels` | levels of cache, on made-up curves |
| `policies` | replacement policies, ways, and single accesses of first-level caches |
| `rings` | bypass delays between classes of instructions |
| `fit` | loads and contention that are fitted to times of mixes |
| `attributes bypass` | attributes on a machine where they are unusual (`verdicts_attributes`) |

A verdict says whether inference found the truth (`verdicts`). `sensitivity` compares verdicts.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from benchmarks.changes import verdicts_attributes
from benchmarks.changes.verdicts_attributes import judged
from generator.memory.accesses import accesses_of
from generator.memory.chase import PAGE_STRIDE
from generator.memory.forwarding import LINE_BYTES, begin, cells
from generator.memory.sequences import SetLines, parse
from generator.operands.values import kinds_of
from generator.sequences.fusion import JUMPS
from generator.sequences.throughput import LENGTHS, ThroughputFactory
from inference.attributes.decoding import COMPLEX, MICROCODE, MITE, SIMPLE, measure_decoding
from inference.attributes.divider import BUSY, measure_divider
from inference.attributes.fusion import infer_fusion
from inference.builder import ConclusionBuilder
from inference.characterizer import Characterizer
from inference.experiment import Measured, Want
from inference.memory.asked import measure_asked
from inference.memory.forwarding import measure_forwarding
from inference.memory.levels import levels, measure_levels, sizes
from inference.memory.replacement import measure_replacement
from inference.ports.fitted import contention
from inference.ports.fitted.contention import TimedUsage
from inference.ports.fitted.fit import TimedMix, fit, split
from inference.throughput import Search
from results.machine.constants import core_of
from results.machine.graph import Behaviour, Decoding, Uop
from results.memory.model import ForwardingOutcome, LineCrossing
from results.model import PortUsage, Status
from results.ports import joined, throughput_of
from runner.backends.sim import SimBackend, open_machine
from runner.bypass import measure_bypass_delays
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session
from runner.verification import by_time
from runner.verification.run import chosen
from simulator.core.compiler import unfused_jumps
from simulator.machines.bypass import BypassDelays
from simulator.machines.machine import MachineModel, Origin, Parameters
from simulator.memory.caches import hits
from simulator.memory.parameters import TYPICAL, CacheLevel, ForwardingParameters, MemoryParameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.changes.kept import Kept
    from generator.memory.forwarding import ForwardingCase
    from inference.characterizer import CandidateCache
    from inference.experiment import Procedure
    from results.bypass.model import BypassCell
    from results.memory.model import MeasuredLevel, Replacement
    from xed_convert.catalogue.catalogue import Catalogue
    from xed_convert.model import InstructionVariant

Verdicts = dict[str, str]
Found = TypeVar("Found")

BY_TIME = {
    by_time.Verdict.RIGHT: "right",
    by_time.Verdict.ALIKE: "right",
    by_time.Verdict.VISIBLE: "right",
    by_time.Verdict.NAMED: "named",
    by_time.Verdict.NAMED_OTHERS: "none",
    by_time.Verdict.UNSTATED: "none",
    by_time.Verdict.WRONG: "wrong",
}

DECODED = tuple(
    Decoding(uops, microcoded, complex=simple is not None, simple=simple)
    for uops, microcoded, simple in ((1, 0, None), (1, 0, 0), (1, 0, 1), (1, 0, 3), (2, 0, 2), (4, 0, 0), (4, 30, 0))
)
"""How the made-up instructions are decoded."""

BY_TIME_TOO = COMPLEX, SIMPLE
FRONT = (MITE, MICROCODE, COMPLEX, SIMPLE)

FUSING = ("TEST (R64, R64)", "CMP (R32, I8)", "DEC (R64)", "OR_0B (R64, R64)")
"""Instructions that fuse with all jumps, with some, and with none."""

FILES = [(store, load) for store in ("general", "vector") for load in ("general", "vector")]
FORWARDING = {
    "typical": TYPICAL.forwarding,
    "renaming": ForwardingParameters(
        dict(zip(FILES, (6, 8, 7, 9), strict=True)), dict(zip(FILES, (19, 21, 20, 22), strict=True)), frozenset({4, 8})
    ),
    "merging": ForwardingParameters(dict.fromkeys(FILES, 5), dict.fromkeys(FILES, 6)),
}
"""Machines by their rules. On the last one a load out of several places takes hardly longer."""

CURVES = {
    "two": ((32 << 10, 5), (1 << 20, 14), (64 << 20, 80)),
    "three": ((48 << 10, 5), (2 << 20, 15), (16 << 20, 60), (64 << 20, 250)),
    "near": ((16 << 10, 3), (256 << 10, 5), (64 << 20, 40)),
}
"""Bytes and cycles of levels, memory last."""

CONDITIONS = tuple(itertools.chain.from_iterable(JUMPS))

DOMAINS = {
    "adder": ("VPADDD", "integer_add/128"),
    "multiplier": ("VPMULUDQ", "integer_multiply/128"),
    "shuffle": ("VPSHUFD", "integer_shuffle/128"),
    "float_adder": ("VADDPS", "float_add/128"),
}
"""Domains of a machine with bypass delays: the instruction of each, and its class."""

DELAYS = {("adder", "multiplier"): 2, ("shuffle", "float_adder"): 1, ("float_adder", "shuffle"): 1}
"""Cycles, from a domain to another one (else none)."""

MIXED = tuple(map(PortUsage.parse, ("1*p0", "1*p01", "1*p5+1*p01", "1*p23", "1*p0156", "2*p5")))
"""Kinds of instructions in mixes that a mapping is fitted to."""

MIXED_INSTRUCTIONS, MIXES = 48, 1500
"""Instructions of all kinds: more than one of the numbers of classes that are tried. And mixes of several."""

SLOWER_TOGETHER, SHARE_LONGER = (0, 3), 0.2
"""Two kinds that take this share longer together than their ports do."""

NESTED_MIXES, NESTED_SHARE, NESTED_FREE, NESTED_NOISE = 60, 0.2, 0.55, 0.01
"""Mixes on a set of ports and a larger one around it. They take longer by the second number where both are full. That
falls with the square to nothing where one has the third share of the highest load. Times are off by the last number at
most."""

FITTED = 0.05
"""Mean error of the mixes that were held back, as a share of their times: twice that on PMEvo's mixes, and noise."""

POLICIES = (("LRU", 4), ("FIFO", 4), ("PLRU", 4), ("QLRU_H00_M1_R0_U1", 2), ("LRU", 12))
MISS = 12
SEQUENCE = "A? B? C? A? D? B? A?"


class Apart:
    """Asks inference about its parts, each without the others."""

    def __init__(self, catalogue: Catalogue, cache: CandidateCache) -> None:
        """Take a catalogue, and candidates for blocking instructions that were made of it."""
        self._catalogue, self._cache = catalogue, cache
        self._parts: dict[str, Callable[[str, int, Kept], Verdicts]] = {
            "time": self._time,
            "decoders": self._decoders,
            "divider": self._divider,
            "fusion": self._fusion,
            "forwarding": self._forwarding,
            "levels": self._levels,
            "policies": self._policies,
            "rings": self._rings,
            "fit": self._fit,
            "attributes": self._of_attributes,
        }

    def knows(self, name: str) -> bool:
        """Return whether a machine is one of these."""
        return name.partition(" ")[0] in self._parts

    def verdicts(self, name: str, count: int, source: Kept) -> Verdicts:
        """Return verdicts on a machine by what they are about; `count`: of how many variants or cases."""
        part, _, machine = name.partition(" ")
        return self._parts[part](machine, count, source)

    def _time(self, name: str, count: int, source: Kept) -> Verdicts:
        machine = open_machine(name)
        variants = evenly(chosen(self._catalogue, machine, ["all"], 1), count)
        backend = SimBackend(machine, self._catalogue, hide_counters=True)
        outcome = by_time.run(backend, self._catalogue, variants, self._cache, source)
        return {f"{string} ports by time": BY_TIME[one] for string, one in outcome.answers.items()}

    def _decoders(self, name: str, count: int, source: Kept) -> Verdicts:
        if ":" in name:
            machine = open_machine(name)
            variants = evenly(chosen(self._catalogue, machine, ["all"], 1), count)
            asked = [(machine, one, {COMPLEX: 0, SIMPLE: None}) for one in variants]
        else:
            cmc = self._catalogue.by_string("CMC")
            asked = [(decoding_machine(name, one), cmc, front_of(one)) for one in DECODED]
        found = {}
        for number, (machine, variant, truth) in enumerate(asked):
            for counted in (True, False):
                about = f"{variant.string} {number} {'by counters' if counted else 'by time'}"
                own = source.part(about)
                attributes = self._attributes(machine, variant, measure_decoding, own, counted=counted)
                wanted = truth if counted else {key: truth[key] for key in BY_TIME_TOO}
                found.update({f"{about} {key}": judged(attributes.get(key), value) for key, value in wanted.items()})
        return found

    def _divider(self, name: str, count: int, source: Kept) -> Verdicts:
        machine = open_machine(name)
        busy = {
            one.string: sum(uop.divider_cycles for uop in behaviour.uops)
            for one in chosen(self._catalogue, machine, ["all"], 1)
            if len(kinds_of(one)) > 1 and (behaviour := machine.behaviour(one)) is not None
        }
        found = {}
        for string in evenly(list(busy), count):
            variant = self._catalogue.by_string(string)
            attributes = self._attributes(machine, variant, measure_divider, source, counted=False)
            found[f"{string} {BUSY}"] = judged(attributes.get(BUSY), busy[string])
        return found

    def _fusion(self, name: str, _count: int, source: Kept) -> Verdicts:
        machine = open_machine(name)
        backend = SimBackend(machine, self._catalogue)
        found = {}
        for variant in map(self._catalogue.by_string, FUSING):
            fuses = variant.iclass in machine.parameters.fusing
            true = set(CONDITIONS) - unfused_jumps().get(variant.iclass, frozenset()) if fuses else set()
            for counters in (backend.info().counters, ("core_cycles",)):
                session = session_of(backend, source.part(f"{variant.string} {len(counters)}"))
                fusion = session.run_one(infer_fusion(self._cache.instructions, variant, counters))
                verdict = "none" if fusion.jumps is None else "right" if set(fusion.jumps) == true else "wrong"
                found[f"{variant.string} {'by time' if len(counters) == 1 else 'by counters'}"] = verdict
        return found

    def _attributes(
        self,
        machine: MachineModel,
        variant: InstructionVariant,
        measure: Callable[..., Procedure[None]],
        source: Kept,
        *,
        counted: bool,
    ) -> dict[str, int]:
        """Return the attributes that one part of inference states of a variant; `counted`: with all counters."""
        backend = SimBackend(machine, self._catalogue)
        capabilities = backend.info().capabilities
        if not counted:
            capabilities = replace(capabilities, counters=("core_cycles",), ports=())
        context = Characterizer(self._catalogue, capabilities, candidates=self._cache).prepared({})

        def procedure() -> Procedure[ConclusionBuilder]:
            found = ConclusionBuilder(variant)
            search = Search(ThroughputFactory(context.instructions, variant), kinds_of(variant)[0])
            yield from search.measure([search.shape(LENGTHS[0])], Want.ALL if counted else Want.CYCLES)
            if search.unrolled:
                found.first = found.fastest = search.unrolled[0]
                if counted:
                    found.note_uops(search)
                yield from measure(found, context)
            return found

        return session_of(backend, source).run_one(procedure()).attributes

    def _of_attributes(self, name: str, _count: int, source: Kept) -> Verdicts:
        return verdicts_attributes.verdicts(name, self._catalogue, self._cache, source)

    def _forwarding(self, name: str, count: int, source: Kept) -> Verdicts:
        rules = FORWARDING[name]
        assert rules is not None
        backend = SimBackend(open_machine("SKX").with_parameters(memory=MemoryParameters(rules)), self._catalogue)
        # LLVM's model has a further µop in loads of 64 bytes, which comes on top of the machine's rules
        known = [one for one in accesses_of(self._cache.instructions, backend.lacks) if one.size_bytes < 64]
        every = list(cells(known))
        # What certainly can be forwarded says how long that takes
        sure = {one for one in every if not one.offset_bytes and one.place is LineCrossing.LINE}
        some = sure.union(evenly(every, count))
        wanted = [one for one in every if one in some]
        matrix, _ = session_of(backend, source).run_one(measure_forwarding(self._cache.instructions, wanted))
        found = {}
        for cell in wanted:
            row = matrix.row(cell.store.name, cell.load.name, cell.place, cell.addressing)
            cycles, outcome = (row and row.at(cell.offset_bytes)) or (None, ForwardingOutcome.UNKNOWN)
            about = f"{cell.load.name} of {cell.store.name} at {cell.offset_bytes} {cell.place} {cell.addressing}"
            true_cycles, true_outcome = forwarded(rules, cell)
            # Of a way between two files only the sum there and back is known: each counts as half
            near = cycles is not None and abs(cycles - true_cycles) <= Fraction(1, 2)
            found[f"{about} cycles"] = "none" if cycles is None else "right" if near else "wrong"
            right = "right" if outcome is true_outcome else "wrong"
            found[f"{about} outcome"] = "none" if outcome is ForwardingOutcome.UNKNOWN else right
        return found

    def _levels(self, _name: str, _count: int, _source: Kept) -> Verdicts:
        found = {}
        for name, curve in CURVES.items():
            known, doubts = levels(answered(measure_levels(self._cache.instructions, curve[-1][0]), curve))
            found[f"{name} number"] = "none" if doubts else "right" if len(known) == len(curve) else "wrong"
            for number, (level, true) in enumerate(itertools.zip_longest(known, curve)):
                found[f"{name} {number}"] = is_level(level, true)
        return found

    def _policies(self, _name: str, _count: int, source: Kept) -> Verdicts:
        found = {}
        for policy, ways in POLICIES:
            caches = (CacheLevel(4096 * ways, ways, 0, policy), CacheLevel(1 << 20, 16, MISS))
            machine = open_machine("SKX").with_parameters(memory=MemoryParameters(caches=caches, memory_cycles=90))
            backend, instructions = SimBackend(machine, self._catalogue), self._cache.instructions
            session = session_of(backend, source.part(f"{policy} {ways}"))
            first = SetLines(4096)
            known = session.run_one(measure_replacement(instructions, first, "L1", Fraction(MISS)))
            found[f"{policy} {ways} ways"] = "none" if known.ways is None else judged(known.ways, ways)
            found[f"{policy} {ways} policy"] = is_policy(known, policy)
            steps = parse(SEQUENCE)
            lines = [sorted({one.line for one in steps}).index(one.line) for one in steps]
            hit = 5
            asked = session.run_one(measure_asked(instructions, first, steps, Fraction(hit), Fraction(hit + MISS)))
            for one, true in zip(asked, hits(policy, ways, lines), strict=True):
                verdict = "none" if one.hits is None else "right" if one.hits is true else "wrong"
                found[f"{policy} {ways} access {one.number}"] = verdict
        return found

    def _rings(self, _name: str, _count: int, _source: Kept) -> Verdicts:
        delays = BypassDelays(
            tuple((one, other, cycles) for (one, other), cycles in DELAYS.items()),
            tuple((iclass, domain) for domain, (iclass, _) in DOMAINS.items()),
        )
        backend = SimBackend(open_machine("HSW").with_parameters(bypass=delays), self._catalogue)
        labels = {domain: label for domain, (_, label) in DOMAINS.items()}
        (matrix,) = measure_bypass_delays(backend, self._catalogue, tuple(labels.values())).matrices
        return {
            f"{one} → {other}": is_delay(matrix.cell(labels[one], labels[other]), DELAYS.get((one, other), 0))
            for one, other in itertools.permutations(DOMAINS, 2)
        }

    def _fit(self, _name: str, _count: int, _source: Kept) -> Verdicts:
        kept, held = split(timed_mixes(), 1)
        mapping = fit(kept, MIXED_INSTRUCTIONS)
        contends = {
            tuple(sorted((one % len(MIXED), other % len(MIXED))))
            for one, other in itertools.combinations(range(MIXED_INSTRUCTIONS), 2)
            if tuple(sorted((mapping.class_of[one], mapping.class_of[other]))) in mapping.contention
        }
        # Further pairs are no mistake: by definition they take longer than their loads say
        return {
            "mixes that were held back": "right" if mapping.error(held) <= FITTED else "none",
            "contention": "right" if SLOWER_TOGETHER in contends else "none",
            "contention of nested sets": "right" if contention_error(timed_usages()) <= NESTED_NOISE else "none",
        }


def evenly(everything: Sequence[Found], count: int) -> Sequence[Found]:
    """Return `count` members of a sequence, at equal distances."""
    return everything[:: max(1, len(everything) // count)][:count]


def session_of(backend: SimBackend, source: Kept | None = None) -> Session:
    """Return a session on a machine."""
    return Session(Measurer(backend), source, Limits(keep_raw=False))


def decoding_machine(core: str, decoding: Decoding) -> MachineModel:
    """Return a core on which CMC is decoded as told, and all else is one µop that any decoder makes."""
    one = Behaviour((Uop(frozenset(), 1, ()),), 1, decoding=Decoding(1))
    special = replace(one, slots=decoding.decoded + decoding.microcoded, decoding=decoding)
    front = core_of(core)
    return MachineModel(
        core,
        replace(Parameters.of(front), front=front),
        Origin("made up", "none"),
        lambda variant: special if getattr(variant, "iclass", "") == "CMC" else one,
    )


def front_of(decoding: Decoding) -> dict[str, int | None]:
    """Return the attributes of an instruction that is decoded so; any decoder takes it: no simple ones are stated."""
    return dict(
        zip(FRONT, (decoding.decoded, decoding.microcoded, int(decoding.complex), decoding.simple), strict=True)
    )


def forwarded(rules: ForwardingParameters, cell: ForwardingCase) -> tuple[int, ForwardingOutcome]:
    """Return the cycles and the outcome of a case by a machine's rules."""
    files = (cell.store.file.value, cell.load.file.value)
    in_two_pages = (begin(cell) or 0) + cell.store.size_bytes > 4096
    if not cell.contained or (in_two_pages and not rules.across_pages):
        merges = rules.failed[files] - rules.forwarded[files] < 3
        return rules.failed[files], ForwardingOutcome.FORWARDED if merges else ForwardingOutcome.FAILED
    same = not cell.offset_bytes and cell.store.size_bytes == cell.load.size_bytes
    if same and files == ("general", "general") and cell.store.size_bytes in rules.renamed_bytes:
        return 0, ForwardingOutcome.RENAMED
    return rules.forwarded[files], ForwardingOutcome.FORWARDED


def answered(procedure: Procedure[Found], curve: Sequence[tuple[int, int]]) -> Found:
    """Answer what `measure_levels` asks for as a machine of these levels would; return what it concludes."""
    requests = next(procedure)
    wanted = sizes(curve[-1][0])
    assert len(requests) == 2 * len(wanted)
    # A ring with a pointer in each page has few lines; pages themselves cost nothing here
    cached = (*wanted, *(size // PAGE_STRIDE * LINE_BYTES for size in wanted))
    cycles = [next(time for held, time in curve if size <= held) for size in cached]
    answers = [
        Measured(request, Status.OK, {"core_cycles": Fraction(one * request.benchmark.divisor)}, {})
        for request, one in zip(requests, cycles, strict=True)
    ]
    try:
        procedure.send(answers)
    except StopIteration as end:
        found: Found = end.value
        return found
    message = "it asks for more"
    raise AssertionError(message)


def is_level(found: MeasuredLevel | None, true: tuple[int, int] | None) -> str:
    """Return the verdict about a level: its bytes and cycles."""
    if found is None:
        return "none"
    right = true is not None and found.size_bytes == true[0] and found.cycles == true[1]
    return "right" if right else "wrong"


def is_delay(found: BypassCell | None, true: int) -> str:
    """Return the verdict about a delay in cycles: a range that holds the true one is "named"."""
    if found is None or found.least is None or found.most is None:
        return "none"
    return "wrong" if not found.least <= true <= found.most else "right" if found.is_exact else "named"


def timed_mixes() -> list[TimedMix]:
    """Return exact times of mixes on a machine with ports, on which two kinds of instructions delay each other."""
    source = random.Random(3)
    everything = range(MIXED_INSTRUCTIONS)
    several = [tuple(source.choices(everything, k=source.randint(2, 5))) for _ in range(MIXES)]
    return [TimedMix(one, mix_cycles(one)) for one in (*((number,) for number in everything), *several)]


def mix_cycles(instructions: Sequence[int]) -> float:
    """Return the cycles of a mix of instructions, by their numbers."""
    kinds = [number % len(MIXED) for number in instructions]
    usage = PortUsage({})
    for kind in kinds:
        usage = joined(usage, MIXED[kind])
    longer = 1 + SHARE_LONGER if set(SLOWER_TOGETHER) <= set(kinds) else 1
    return max(float(throughput_of(usage)), len(kinds) / 4) * longer


def timed_usages() -> list[TimedUsage]:
    """Return mixes of µops on p0, on p01 and on p5, which take longer where p0 and p01 are both full."""
    source = random.Random(4)
    found = []
    for _ in range(NESTED_MIXES):
        inner, outer, apart = (source.randint(*counts) for counts in ((1, 6), (0, 6), (0, 6)))
        cycles = max(inner, (inner + outer) / 2)
        full = min(inner, (inner + outer) / 2) / cycles
        longer = NESTED_SHARE * max(0.0, (full - NESTED_FREE) / (1 - NESTED_FREE)) ** 2
        usage = PortUsage.parse(f"{inner}*p0" + f"+{outer}*p01" * bool(outer) + f"+{apart}*p5" * bool(apart))
        noise = 1 + source.uniform(-NESTED_NOISE, NESTED_NOISE)
        found.append(TimedUsage(usage, 0.0, max(apart, cycles * (1 + longer)) * noise))
    return found


def contention_error(mixes: Sequence[TimedUsage]) -> float:
    """Return the mean error of a table on half of the mixes, as a share of their times; it is fitted to the others."""
    table, held = contention.fit(mixes[::2]), mixes[1::2]
    return sum(abs(table.cycles(one) / one.cycles - 1) for one in held) / len(held)


def is_policy(found: Replacement, true: str) -> str:
    """Return the verdict about a policy; several are named that no sequence parts."""
    if not found.policies:
        return "none"
    return "wrong" if true not in found.policies else "right" if len(found.policies) == 1 else "named"
