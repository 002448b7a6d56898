"""A resource mapping and a table of contention, fitted to given times of mixes of unnamed instructions.

A mix takes as long as its fullest resource: t = max over r of the sum of its instructions' loads on r. A set of ports
is such a resource, and a µop that is confined to it loads it by 1 / (its size). So every port mapping has this form
(Derumigny et al., "PALMED", CGO 2022, section 3).

Many instructions have the same loads, so loads are fitted by class. First each instruction has its own loads. Clusters
of these are the first classes. Then instructions change to the class that explains them best. A pair of classes that
takes longer together than its loads say is noted as contention.

The same data give the same result: starting points are drawn from a fixed seed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias

from xed_convert.errors import UopscopeError
from xed_convert.extras import extra

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Indices: TypeAlias = NDArray[np.int64]
    ClassPair: TypeAlias = tuple[int, int]
    """Two classes, the lower number first."""

SEEDS = (1, 2, 3)
"""Seeds of the starting points: descent ends in another place from each, and the best one counts."""

RESOURCES = 8
"""Resources: with more, noise is fitted; with fewer, unrelated instructions share one. Chosen on tenths of PMEvo's
Skylake mixes that were held back."""

CLASS_COUNTS = (40, 60)
"""Numbers of classes that are tried. A tenth of the mixes, held back from the fit, chooses one and a seed."""

HELD_BACK = 10
"""One in this many mixes of several instructions is held back, to choose or to judge."""

FEWEST_TO_FIT = HELD_BACK + 2
"""Mixes of several instructions: one is held back to choose, and two to judge."""

FREE_STEPS, CLASS_STEPS = 500, 300
"""Steps of the descent for loads by instruction, and by class, to bound the work."""

ROUNDS = 5
"""How often instructions may change their class, to bound the work."""

FIRST_STEP, SMALL_STEP = 0.02, 0.01
"""Cycles by which a load changes at most in the first step, by instruction and by class; steps shrink to nothing."""

FARTHEST = (FREE_STEPS * FIRST_STEP + (ROUNDS + 1) * CLASS_STEPS * SMALL_STEP) / 2
"""Cycles by which all these steps together change a load at most. An instruction with a larger load, such as a
division, takes larger steps in proportion."""

SOFTNESS, LEAST_SOFTNESS = 0.05, 0.001
"""Share of a mix's time within which resources count nearly like the fullest one, in the first step and in the last."""

LEAST_CYCLES = 0.3
"""Cycles. Mixes that take less count as if they took so long, so that the maximum stays soft for them, too."""

STEEP = 0.01
"""Share of a mix's time. Larger errors all weigh the same, so that the mean of errors shrinks, not their squares."""

SLOPE_WEIGHTS, SQUARE_WEIGHTS = (0.9, 0.1), (0.99, 0.01)
"""Weights of the steps before and of this one, in the mean slope and in its mean square (Adam, Kingma and Ba, 2015)."""

FLAT = 1e-6
"""A slope that counts as none, so that nothing is divided by 0 (Adam's epsilon)."""

USUAL_WIDTH = 4
"""Slots per cycle with which the fit begins: a usual issue width, and the fit moves away from it."""

CLUSTER_ROUNDS = 40
"""Rounds of clustering, to bound the work."""

FEWEST_MIXES = 12
"""Mixes with a pair of classes that are needed to call it contention: the median of fewer is noise."""

CONTENDS = 0.05
"""Share of the predicted time. A pair contends if three quarters of its mixes take longer by more than this. It is more
than twice the mean error on PMEvo's mixes (2 %)."""


class FitError(UopscopeError):
    """Mixes that nothing can be fitted to."""


@dataclass(frozen=True, slots=True)
class TimedMix:
    """Instructions by their number, each as often as it stands in the mix, and the cycles of the mix."""

    instructions: tuple[int, ...]
    cycles: float


@dataclass(frozen=True, slots=True)
class ResourceMapping:
    """Loads of classes on resources, in cycles per instruction, and contention between pairs of classes.

    `class_of` has the class of each instruction. `contention` maps a pair of classes (lower first) to the share of the
    time by which a mix with both takes longer.
    """

    class_of: tuple[int, ...]
    loads: tuple[tuple[float, ...], ...]
    contention: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def cycles(self, instructions: Sequence[int], *, with_contention: bool = True) -> float:
        """Return the time of a mix in cycles."""
        most = self.contention.get(self._slowest_pair(instructions) or (-1, -1), 0.0) if with_contention else 0.0
        return max(self._sums(instructions)) * (1 + most)

    def limits(self, instructions: Sequence[int]) -> tuple[int, ClassPair | None]:
        """Return the fullest resource of a mix, and the pair of classes in it that contend most (None: none do)."""
        sums = self._sums(instructions)
        return sums.index(max(sums)), self._slowest_pair(instructions)

    def _sums(self, instructions: Sequence[int]) -> list[float]:
        return [sum(one) for one in zip(*(self.loads[self.class_of[each]] for each in instructions), strict=True)]

    def _slowest_pair(self, instructions: Sequence[int]) -> ClassPair | None:
        pairs = combinations(sorted({self.class_of[one] for one in instructions}), 2)
        return max(self.contention.keys() & set(pairs), key=lambda pair: (self.contention[pair], pair), default=None)

    def error(self, mixes: Sequence[TimedMix], *, with_contention: bool = True) -> float:
        """Return the mean of |predicted - measured| / measured."""
        wrong = [
            abs(self.cycles(one.instructions, with_contention=with_contention) - one.cycles) / one.cycles
            for one in mixes
        ]
        return sum(wrong) / len(wrong) if wrong else 0.0


def split(mixes: Sequence[TimedMix], place: int) -> tuple[list[TimedMix], list[TimedMix]]:
    """Return mixes for the fit and mixes that are held back from it: every tenth of several instructions.

    Mixes of a single instruction are never held back, nor the last mix of an instruction: nothing else says what the
    instruction is.
    """
    left = Counter(number for one in mixes for number in set(one.instructions))
    kept: list[TimedMix] = []
    held: list[TimedMix] = []
    number = 0
    for one in mixes:
        members = set(one.instructions)
        number += len(members) > 1
        if len(members) > 1 and number % HELD_BACK == place and all(left[each] > 1 for each in members):
            held.append(one)
            left.subtract(members)
        else:
            kept.append(one)
    return kept, held


def fit(mixes: Sequence[TimedMix], count: int) -> ResourceMapping:
    """Fit a mapping of `count` instructions to mixes.

    Raises:
        FitError: an instruction is in no mix, or there are too few mixes.
        MissingPackageError: scipy is not installed.
    """
    extra("scipy", "a fit to mixes")
    missing = set(range(count)) - {number for one in mixes for number in one.instructions}
    if missing:
        raise FitError(f"instruction {min(missing)} is in no mix", hint="leave it out, or measure it alone")
    kept, held = split(mixes, 0)
    if not held:
        several = sum(len(set(one.instructions)) > 1 for one in mixes)
        raise FitError(
            f"none of {several} mixes of several instructions can be held back to choose a fit",
            hint=f"measure at least {FEWEST_TO_FIT}, and each instruction in more than one of them",
        )
    tried = [number for number in CLASS_COUNTS if number < count] or [count]
    trial = _Fit(kept, count)
    _, best, seed = min((trial.run(number, seed).error(held), number, seed) for number in tried for seed in SEEDS)
    return _Fit(mixes, count).run(best, seed)


class _Fit:
    """Loads for some mixes."""

    def __init__(self, mixes: Sequence[TimedMix], count: int) -> None:
        import numpy as np  # noqa: PLC0415 - loading it takes longer than most starts
        from scipy import sparse  # noqa: PLC0415

        self._mixes, self._count = mixes, count
        rows = [row for row, one in enumerate(mixes) for _ in one.instructions]
        columns = [number for one in mixes for number in one.instructions]
        self._members: Any = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(mixes), count))
        self._cycles: Floats = np.array([one.cycles for one in mixes])

    def run(self, classes: int, seed: int) -> ResourceMapping:
        """Return the mapping with at most so many classes, from the starting point of a seed."""
        import numpy as np  # noqa: PLC0415

        random = np.random.default_rng(seed)
        alone = self._alone()
        free = alone[:, None] * random.uniform(0, 1, (self._count, RESOURCES)) ** 2
        free[:, 0] = 1 / USUAL_WIDTH  # issue is a resource of every instruction
        free = self._descend(free, np.arange(self._count), FREE_STEPS, FIRST_STEP)
        class_of = _clusters(np.hstack([free, 2 * alone[:, None]]), classes, random)
        loads = np.array(
            [np.median(free[class_of == one], 0) if (class_of == one).any() else free[0] * 0 for one in range(classes)]
        )
        for _ in range(ROUNDS):
            loads = self._descend(loads, class_of, CLASS_STEPS, SMALL_STEP)
            class_of = self._best_classes(loads, class_of)
        loads = self._shown(self._descend(loads, class_of, CLASS_STEPS, SMALL_STEP), class_of)
        found = ResourceMapping(tuple(map(int, class_of)), tuple(tuple(map(float, row)) for row in loads))
        return ResourceMapping(found.class_of, found.loads, contention(found, self._mixes))

    def _alone(self) -> Floats:
        """Return the cycles of each instruction alone, or its share of the least mix that it is in."""
        import numpy as np  # noqa: PLC0415

        found = np.full(self._count, np.inf)
        for one in self._mixes:
            for number in set(one.instructions):
                share = one.cycles / (len(one.instructions) if len(set(one.instructions)) == 1 else 1)
                found[number] = min(found[number], share)
        return found

    def _descend(self, loads: Floats, class_of: Indices, steps: int, step: float) -> Floats:
        """Return loads that explain the times better: descent along relative errors of the fullest resources (Adam)."""
        import numpy as np  # noqa: PLC0415
        from scipy import sparse  # noqa: PLC0415

        chosen = sparse.csr_matrix(
            (np.ones(self._count), (np.arange(self._count), class_of)), shape=(self._count, len(loads))
        )
        members = (self._members @ chosen).tocsr()
        back = members.T.tocsr()
        often = np.maximum(1, np.asarray(members.sum(0)).ravel())[:, None]
        first, second = np.zeros_like(loads), np.zeros_like(loads)
        steps_of = step * np.maximum(1, loads.max(1, keepdims=True) / FARTHEST)
        for number in range(steps):
            left = 1 - number / steps
            soft = (SOFTNESS * left**2 + LEAST_SOFTNESS) * np.maximum(self._cycles, LEAST_CYCLES)[:, None]
            sums = members @ loads
            weights = np.exp((sums - sums.max(1, keepdims=True)) / soft)
            weights /= weights.sum(1, keepdims=True)
            wrong = ((weights * sums).sum(1) - self._cycles) / self._cycles
            slope = back @ ((np.tanh(wrong / STEEP) / self._cycles)[:, None] * weights) / often
            first = SLOPE_WEIGHTS[0] * first + SLOPE_WEIGHTS[1] * slope
            second = SQUARE_WEIGHTS[0] * second + SQUARE_WEIGHTS[1] * slope**2
            loads = np.maximum(loads - steps_of * left * first / (np.sqrt(second) + FLAT), 0)
        return loads

    def _shown(self, loads: Floats, class_of: Indices) -> Floats:
        """Return loads of which those that limit no mix are at most what an instruction has in the median.

        Nothing shows such a load: it is what the descent began with. The predicted times of these mixes stay the same,
        but longer mixes might be thought to take as long as such loads, which add up in them.
        """
        import numpy as np  # noqa: PLC0415

        fullest = (self._members @ loads[class_of]).argmax(1)
        shown = np.zeros_like(loads, dtype=bool)
        rows, columns = self._members.nonzero()
        shown[class_of[columns], fullest[rows]] = True
        usual = np.sort(loads[class_of], axis=0)[(len(class_of) - 1) // 2]
        return np.where(shown, loads, np.minimum(loads, usual))

    def _best_classes(self, loads: Floats, class_of: Indices) -> Indices:
        """Return for each instruction the class that predicts its mixes best, while no other instruction changes."""
        import numpy as np  # noqa: PLC0415

        own = loads[class_of]
        sums = self._members @ own
        columns = self._members.tocsc()
        found = class_of.copy()
        for number in range(self._count):
            place = slice(columns.indptr[number], columns.indptr[number + 1])
            rows, often = columns.indices[place], columns.data[place][:, None]
            rest = sums[rows] - often * own[number]
            predicted = (rest[:, None, :] + often[:, :, None] * loads[None]).max(2)
            cycles = self._cycles[rows][:, None]
            found[number] = int((np.abs(predicted - cycles) / cycles).mean(0).argmin())
        return found


def _clusters(features: Floats, count: int, random: np.random.Generator) -> Indices:
    """Return the cluster of each row: k-means with medians, from centres that are far from each other."""
    import numpy as np  # noqa: PLC0415

    centres = features[random.choice(len(features), 1)]
    while len(centres) < count:
        far = ((features[:, None] - centres[None]) ** 2).sum(2).min(1)
        total = far.sum()
        chances = far / total if total else np.full(len(far), 1 / len(far))
        centres = np.vstack([centres, features[random.choice(len(features), p=chances)]])
    nearest: Indices = np.zeros(len(features), dtype=np.int64)
    for _ in range(CLUSTER_ROUNDS):
        nearest = ((features[:, None] - centres[None]) ** 2).sum(2).argmin(1)
        centres = np.array(
            [np.median(features[nearest == one], 0) if (nearest == one).any() else centres[one] for one in range(count)]
        )
    return nearest


def contention(mapping: ResourceMapping, mixes: Sequence[TimedMix]) -> dict[tuple[int, int], float]:
    """Return by which share mixes with a pair of classes take longer than their loads say, in the median.

    A pair contends if most of its mixes do so, not only some of them: in these, something else may take longer.
    """
    longer: dict[tuple[int, int], list[float]] = defaultdict(list)
    for one in mixes:
        share = one.cycles / mapping.cycles(one.instructions, with_contention=False) - 1
        for pair in combinations(sorted({mapping.class_of[number] for number in one.instructions}), 2):
            longer[pair].append(share)
    found = {pair: sorted(shares) for pair, shares in longer.items() if len(shares) >= FEWEST_MIXES}
    return {pair: median(shares) for pair, shares in sorted(found.items()) if shares[len(shares) // 4] > CONTENDS}
