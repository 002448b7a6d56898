"""Remembers what functions return for instances, which hardly any other key is as slow to look up by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from xed_convert.model import Instance, InstructionVariant, OperandValue

Found = TypeVar("Found")


class PerObject(Generic[Found]):
    """What a function returns for an instance, worked out once for the same object: for functions that are quick."""

    MOST_OBJECTS = 1 << 12

    def __init__(self, function: Callable[[Instance], Found]) -> None:
        self._function = function
        self._objects: dict[int, tuple[Instance, Found]] = {}

    def __call__(self, instance: Instance) -> Found:
        """Return it, worked out or known."""
        same = self._objects.get(id(instance))
        if same is not None:
            return same[1]
        found = self._find(instance)
        if len(self._objects) >= self.MOST_OBJECTS:
            self._objects.clear()
        # With the instance (below: the variant), so that it lives and no other one gets its id
        self._objects[id(instance)] = instance, found
        return found

    def _find(self, instance: Instance) -> Found:
        return self._function(instance)


class PerInstance(PerObject[Found]):
    """What a function returns for an instance, worked out once for the same variant (object) and equal values.

    Hashing addresses takes long, so that this is for functions that take longer.
    """

    MOST = 1 << 16

    def __init__(self, function: Callable[[Instance], Found]) -> None:
        super().__init__(function)
        self._known: dict[tuple[int, tuple[tuple[int, OperandValue], ...]], tuple[InstructionVariant, Found]] = {}

    def _find(self, instance: Instance) -> Found:
        key = (id(instance.variant), tuple(sorted(instance.values.items())))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= self.MOST:
                self._known.clear()
            known = self._known[key] = (instance.variant, self._function(instance))
        return known[1]
