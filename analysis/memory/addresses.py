"""Which store a load reads from: addresses followed through arithmetic, over iterations.

Every register holds a symbol plus an offset; with symbol 0 the offset is the whole value, a known number. Moves,
additions of numbers, LEA and stack instructions keep both known. Other instructions make a new symbol, unless all that
they read are numbers. Two addresses are the same if symbol and offset are. So a store to [RAX+8] feeds a load of [RAX]
after ADD RAX, 8. A load counts as reading from a store if it does so in each iteration, at the same distance: a store
that passes the load's address only once does not count. FS and GS have bases of their own.

At the beginning each register holds a symbol of its own, so different registers never point to the same place. With
an `Environment` all registers and all of memory hold one number, and all pages are one page of physical memory. So
BHive's blocks were measured (Chen et al., IISWC 2019, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from analysis.memory.commits import commit_cycles
from analysis.memory.meaning import Meaning
from analysis.memory.pages import NOTHING, Reached, Touched, reached
from analysis.memory.state import InstancePlace, SymbolicState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from analysis.block.code import Item
    from analysis.memory.accesses import ForwardedLoad
    from analysis.memory.environment import Environment
    from results.machine.constants import CoreConstants

ITERATIONS = 4
"""Iterations that are followed. By then a load reads from the same store each time, unless addresses wrap around."""

DATA_TLB_PAGES = 64
"""Pages that the first-level TLB of data holds (Intel's Optimization Reference Manual, chapter 2, Haswell to Ice Lake).
"""


@dataclass(frozen=True, slots=True)
class Followed:
    """What came out of following addresses: which loads read from which stores, and what is reached for the first time.

    `reached` is known with an `Environment` only. `commit_cycles` are those per iteration that the stores take into the
    cache, where the core's are known. All of it is true of code that runs with `loop_copies` of the block in an
    iteration of a loop (0: copies follow each other without end).
    """

    forwardings: tuple[ForwardedLoad, ...] = ()
    reached: Reached = NOTHING
    commit_cycles: Fraction = Fraction(0)
    loop_copies: int = 0


class AddressFollower:
    """Follows the addresses of blocks; what an instruction does to values is worked out once."""

    def __init__(self, environment: Environment | None = None, core: CoreConstants | None = None) -> None:
        """Take what registers and memory hold (None: anything), and the core (None: nothing is known of it)."""
        self.environment = environment
        self.renaming = core.memory_renaming if core is not None else None
        self.commit = core.store_commit if core is not None else None
        self._known: dict[Item, Meaning] = {}

    def follow(self, items: Sequence[Item], loop_copies: int = 0) -> Followed:
        """Follow the addresses of a block through a few iterations.

        Args:
            items: its instructions.
            loop_copies: how many copies of it are one iteration of a loop (0: copies follow each other without end).
        """
        meanings = [self._meaning(item) for item in items]
        accesses = [access for meaning in meanings for access in meaning.accesses]
        stores = sum(one.writes for one in accesses)
        linked = stores and (any(one.reads for one in accesses) or (stores > 1 and self.commit is not None))
        if not linked and (self.environment is None or not accesses):
            return Followed(loop_copies=loop_copies)
        state = SymbolicState(self.environment, self.renaming)
        touched: list[list[Touched]] = []
        before: set[tuple[ForwardedLoad, int]] = set()
        found: set[tuple[ForwardedLoad, int]] = set()
        for iteration in range(ITERATIONS):
            before, found = found, set()
            state.here, state.touched = self._begin(items, iteration, loop_copies), []
            for position, meaning in enumerate(meanings):
                state.here += len(items[position].data)
                found |= meaning.follow(state, InstancePlace(iteration, position))
            touched.append(state.touched)
        steady = {one for one, _ in found & before}
        known = self._with_predicted(steady, loop_copies)
        forwardings = tuple(sorted(known, key=lambda one: (one.load, one.store, one.iterations)))
        committed = Fraction(0)
        if self.commit is not None and state.stored:
            committed = commit_cycles(state.stored, ITERATIONS, self.commit)
        return Followed(forwardings, self._reached(touched, loop_copies, len(items)), committed, loop_copies)

    def _begin(self, items: Sequence[Item], iteration: int, loop_copies: int) -> int:
        """Return where an iteration begins, in bytes from the first one.

        Measured copies stand behind each other, so an address relative to RIP is another one in each. Without an
        `Environment` it is that of a variable, wherever the code stands.
        """
        if self.environment is None:
            return 0
        copy = iteration % loop_copies if loop_copies else iteration
        return copy * sum(len(item.data) for item in items)

    def _reached(self, touched: Sequence[Sequence[Touched]], loop_copies: int, instructions: int) -> Reached:
        """Return what is reached under new addresses: nothing, if code restarts before it leaves a page.

        Copies in a row that restart reach the same pages again. If these are few, all are known already.
        """
        if self.environment is None:
            return NOTHING
        page_bytes, restarts = self.environment.page_bytes, self.environment.restarts
        copies = loop_copies or max(1, self.environment.instructions // instructions)
        found = reached(touched, page_bytes, page_bytes / copies if restarts else 0)
        is_known = restarts and not loop_copies and found.pages * copies <= DATA_TLB_PAGES
        return NOTHING if is_known else found

    def _with_predicted(self, loads: Iterable[ForwardedLoad], loop_copies: int) -> Iterable[ForwardedLoad]:
        """Return forwarded loads; in a loop with few enough of them, those that are predictable are renamed.

        The core also learns of loads that gain nothing by it, such as those of vectors.
        """
        learned = {one.load for one in loads if not one.renamed}
        most = self.renaming.predicted_loads if self.renaming is not None else 0
        if not 0 < len(learned) * loop_copies <= most:
            return loads
        return [replace(one, renamed=True) if one.predictable else one for one in loads]

    def _meaning(self, item: Item) -> Meaning:
        found = self._known.get(item)
        if found is None:
            found = self._known[item] = Meaning(item.compiled, self.renaming)
        return found
