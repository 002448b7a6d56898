"""Which replacement policy a level of cache has, by time alone.

Sequences of loads of one set are repeated in a loop. The number of misses of a round is its time beyond that of hits,
divided by the extra time of a miss. Each candidate policy predicts that number for each sequence. The policy is known
if one candidate agrees with all sequences, and every other candidate that agrees makes the same predictions.

1. **ways**: how many lines of a set can be loaded in turn without a miss. In a longer round at most that many can hit,
   and the others take as long as misses. If they take less, something else is full, such as a set of the TLB.
2. **sequences**: a few more lines than there are ways, in an order drawn from a fixed seed.
3. **policies**: for each candidate, the time of a miss is the one that fits its predictions best. A candidate agrees if
   no prediction is off by more than `OFF` misses.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING

from generator.memory.sequences import SequenceCode, of_numbers
from inference.experiment import Request
from inference.memory.policies import misses_per_round, policies
from results.memory.model import Replacement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.factory import InstructionFactory
    from generator.memory.sequences import SetLines
    from inference.experiment import Procedure

MOST_WAYS = 24
"""Lines that are tried; no first or second level of an x86 core has more ways (Intel and AMD, CPUID)."""
SEQUENCES = 30
"""Sequences that are measured: enough to distinguish all policies of four ways that differ in such sequences."""
SEED = 1
"""The seed of the sequences' order: any will do, if it is always the same."""
LENGTH = 4
"""Accesses of a sequence, per way."""
MORE_LINES = (1, 2, 4)
"""Lines of a sequence beyond the number of ways; sequences take these values by turns."""
OFF = Fraction(3, 4)
"""Misses per round by which a prediction may be off: policies that differ at all mostly differ by more somewhere."""
FIRST, FAR = 6, Fraction(3)
"""Sequences that are looked at first, and misses per round: a policy that is off by more in them is excluded."""
FURTHEST = Fraction(10**6)
"""Misses per round by which a policy is called off if no time of a miss fits it."""
FIRST_MISS = Fraction(1, 3)
"""Share of the extra time of a miss, per round: half a miss per round is no noise."""
NO_MISS = 3
"""Core cycles: a miss takes at least this many more than a hit."""


def measure_replacement(
    instructions: InstructionFactory, where: SetLines, name: str, miss_cycles: Fraction
) -> Procedure[Replacement]:
    """Find ways and policy of the level whose sets `where` describes.

    Args:
        instructions: where instructions come from.
        where: lines of one set.
        name: the name of the level, for people.
        miss_cycles: about how many more core cycles a miss takes than a hit.
    """
    code = SequenceCode(instructions, where)
    rounds = [tuple(range(count)) for count in range(1, MOST_WAYS + 2)]
    answers = yield [Request(code.chain(of_numbers(lines)), loop=True) for lines in rounds]
    times = [found.cycles if found.ok else None for found in answers]
    ways = ways_of(times, miss_cycles)
    pair = times[1]
    if ways is None or pair is None:
        return Replacement(name, None, (), "the number of ways cannot be told by time")
    lines = sequences(ways)
    answers = yield [Request(code.chain(of_numbers(one)), loop=True) for one in lines]
    if not all(found.ok for found in answers):
        reason = next(found.detail or found.status.value for found in answers if not found.ok)
        return Replacement(name, ways, (), reason)
    extra = [found.cycles - pair / 2 * len(one) for found, one in zip(answers, lines, strict=True)]
    return concluded(name, ways, lines, extra, miss_cycles)


def ways_of(times: Sequence[Fraction | None], miss_cycles: Fraction) -> int | None:
    """Return how many lines can be loaded in turn without a miss: `times[n]` is that of n + 1 lines.

    None: no number of lines misses, or more lines take less than those that cannot hit.
    """
    known = [time for time in times if time is not None]
    if len(known) < len(times) or miss_cycles < NO_MISS:
        return None
    hit = known[1] / 2
    least = miss_cycles * FIRST_MISS * 2
    extra = [time - hit * count for count, time in enumerate(known, 1)]
    ways = next((count for count, took in enumerate(extra) if took > least), 0)
    return ways if ways and all(took > (more + 1) * least for more, took in enumerate(extra[ways:])) else None


def sequences(ways: int) -> list[list[int]]:
    """Return the sequences for sets of `ways` ways: lines by number, each at least once."""
    draw = random.Random(SEED)
    found = []
    for number in range(SEQUENCES):
        count = ways + MORE_LINES[number % len(MORE_LINES)]
        lines = [*range(count), *(draw.randrange(count) for _ in range(LENGTH * ways - count))]
        draw.shuffle(lines)
        found.append(lines)
    return found


def distance(predicted: Sequence[Fraction], extra: Sequence[Fraction], miss_cycles: Fraction) -> Fraction:
    """Return by how many misses per round a policy is off at most, with the time of a miss that fits it best.

    Args:
        predicted: misses per round of each sequence.
        extra: core cycles that the sequence takes more than hits.
        miss_cycles: about how many more core cycles a miss takes. If the best fit is not between half and twice as
            many, the policy is far off.
    """
    squares = sum((one * one for one in predicted), Fraction(0))
    if not squares:
        return FURTHEST
    pairs = list(zip(predicted, extra, strict=True))
    miss = sum((one * took for one, took in pairs), Fraction(0)) / squares
    if not miss_cycles / 2 < miss < miss_cycles * 2:
        return FURTHEST
    return max(abs(took / miss - one) for one, took in pairs)


def concluded(
    name: str, ways: int, lines: Sequence[Sequence[int]], extra: Sequence[Fraction], miss_cycles: Fraction
) -> Replacement:
    """Return the policies that agree with the core cycles that sequences took beyond hits."""
    agreeing: dict[tuple[Fraction, ...], list[str]] = {}
    nearest = FURTHEST
    for policy in policies(ways):
        first = tuple(misses_per_round(policy, ways, one) for one in lines[:FIRST])
        if distance(first, extra[:FIRST], miss_cycles) > FAR:
            continue
        predicted = (*first, *(misses_per_round(policy, ways, one) for one in lines[FIRST:]))
        off = distance(predicted, extra, miss_cycles)
        nearest = min(nearest, off)
        if off <= OFF:
            agreeing.setdefault(predicted, []).append(policy.name)
    if len(agreeing) == 1:
        (names,) = agreeing.values()
        return Replacement(name, ways, tuple(names))
    if agreeing:
        count = sum(map(len, agreeing.values()))
        return Replacement(name, ways, (), f"the times do not decide between {count} policies")
    near = f": the nearest is off by {float(nearest):.1f} misses of a round" if nearest < FURTHEST else ""
    return Replacement(name, ways, (), f"no policy that is known here agrees{near}")
