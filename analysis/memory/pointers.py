"""Which loads depend on others, and which of them take a cycle less because a load made their base.

Such a load begins with its base before the tag of the other load is known to be right (Intel's Optimization Reference
Manual, chapter 2, section on the data cache). A move that rename eliminates between the two changes nothing. Behind a
store that is forwarded a load takes its usual time. Source of both: Abel and Reineke, uiCA (ICS 2022), and its
artifact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.block.repeated import in_repeated
from simulator.instructions.locations import high_byte_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from analysis.block.code import Item
    from analysis.memory.accesses import ForwardedLoad


def quick_loads(items: Sequence[Item], forwardings: Iterable[ForwardedLoad]) -> set[int]:
    """Return the positions of the loads whose base came out of a load, in code that is repeated."""
    loaded: set[str] = set()

    def is_quick(item: Item) -> bool:
        effects = item.effects
        loaded.difference_update(effects.merged)
        found = effects.pointer in loaded
        names = {name for one in effects.outputs for name in one.names}
        kept = {name for one in effects.outputs if one.is_load or one.copied in loaded for name in one.names}
        loaded.difference_update(names - kept)
        loaded.update(kept)
        return found

    quick = in_repeated(items, is_quick)
    return {position for position, found in enumerate(quick) if found} - {one.load for one in forwardings}


def has_chain_of_loads(items: Sequence[Item]) -> bool:
    """Whether the address of a load comes out of another load, in code that is repeated."""
    loaded: set[str] = set()

    def has_loaded_address(item: Item) -> bool:
        effects = item.effects
        loaded.update([register for register in effects.merged if high_byte_of(register) in loaded])
        found = any(not loaded.isdisjoint(load.registers) for load in effects.loads)
        names = {name for one in effects.outputs for name in one.names}
        kept = {
            name
            for one in effects.outputs
            if one.loads_wait is not None or any(source in loaded for source, _ in one.waits)
            for name in one.names
        }
        loaded.difference_update(names - kept)
        loaded.update(kept)
        return found

    return any(in_repeated(items, has_loaded_address))
