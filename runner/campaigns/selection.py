"""Chooses variants by extension and ISA set, as XED names them: `--extension` and `--isa-set`.

Case does not matter, and a glob stands for all names that match it. Several names of one kind are alternatives. If both
options are given, a variant must match both.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xed_convert.model import InstructionVariant


class SelectionError(UopscopeError):
    """No variant has an extension or ISA set of that name, or none is left; the hint lists the nearest."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns for extensions (BASE, AVX512EVEX) and ISA sets (I86, AVX512F_512); without any, all variants."""

    extensions: tuple[str, ...] = ()
    isa_sets: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.extensions or self.isa_sets)

    def options(self) -> list[str]:
        """Return the same as options of `characterize`."""
        named = (("--extension", self.extensions), ("--isa-set", self.isa_sets))
        return [word for option, patterns in named for pattern in patterns for word in (option, pattern)]

    def of(
        self, variants: Sequence[InstructionVariant], all_variants: Iterable[InstructionVariant]
    ) -> list[InstructionVariant]:
        """Return the selected variants, in their order.

        Args:
            variants: what to choose from.
            all_variants: the whole catalogue, which says what names there are.

        Raises:
            SelectionError: a pattern matches no name of the catalogue, or no variant is left.
        """
        if not self:
            return list(variants)
        everything = list(all_variants)
        extensions = _meant("extension", self.extensions, {variant.extension for variant in everything})
        isa_sets = _meant("ISA set", self.isa_sets, {variant.isa_set for variant in everything})
        found = [variant for variant in variants if variant.extension in extensions and variant.isa_set in isa_sets]
        if not found:
            raise SelectionError(
                "no variant is left", hint="--instr, --extension and --isa-set must all hold; see --list for each alone"
            )
        return found


def _meant(kind: str, patterns: Iterable[str], names: set[str]) -> set[str]:
    """Return the names that match any of the patterns (without a pattern: all names)."""
    found: set[str] = set()
    for pattern in patterns:
        wanted = pattern.strip().upper()
        matching = {name for name in names if fnmatchcase(name.upper(), wanted)}
        if not matching:
            raise SelectionError(f"no instruction has the {kind} {pattern!r}", hint=_nearest(wanted, names))
        found |= matching
    return found or names


def _nearest(wanted: str, names: set[str]) -> str:
    by_upper = {name.upper(): name for name in names}
    near = [by_upper[name] for name in get_close_matches(wanted, by_upper, n=6, cutoff=0.5)]
    near += sorted(name for name in names if wanted in name.upper() and name not in near)[:6]
    return f"did you mean: {', '.join(near)}" if near else "characterize --all --list shows what there is"
