"""Caches of function results, by instance or variant.

Hashing an instance with its addresses takes longer than many of these functions. So an object is looked up by its
identity first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from xed_convert.model import Instance, InstructionVariant, OperandValue

Key = TypeVar("Key")
Found = TypeVar("Found")


class PerObject(Generic[Key, Found]):
    """The results of a quick function, one for each object (an instance, a variant)."""

    MOST_OBJECTS = 1 << 12
    """Objects of the last few variants: each has some hundred instances."""

    def __init__(self, function: Callable[[Key], Found]) -> None:
        self._function = function
        self._objects: dict[int, tuple[Key, Found]] = {}

    def __call__(self, key: Key) -> Found:
        """Return the result, computed at the first call."""
        same = self._objects.get(id(key))
        if same is not None:
            return same[1]
        found = self._find(key)
        if len(self._objects) >= self.MOST_OBJECTS:
            self._objects.clear()
        # The object is kept, too: while it lives no other one gets its id (likewise the variant below)
        self._objects[id(key)] = key, found
        return found

    def _find(self, key: Key) -> Found:
        return self._function(key)


class PerInstance(PerObject["Instance", Found]):
    """The results of a function of instances, one for each variant (object) and equal values.

    It hashes addresses, so it is for functions that take longer than that.
    """

    MOST = 1 << 13
    """Instances. Setups and breakers use the same few again and again; those under test are needed for a while."""

    def __init__(self, function: Callable[[Instance], Found]) -> None:
        super().__init__(function)
        self._known: dict[tuple[int, tuple[tuple[int, OperandValue], ...]], tuple[InstructionVariant, Found]] = {}

    def _find(self, key: Instance) -> Found:
        equal = (id(key.variant), tuple(sorted(key.values.items())))
        known = self._known.get(equal)
        if known is None:
            if len(self._known) >= self.MOST:
                self._known.clear()
            known = self._known[equal] = (key.variant, self._function(key))
        return known[1]
