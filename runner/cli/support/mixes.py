"""Files of timed mixes, and of mappings that were fitted to such mixes, for `uopscope ports`."""

from __future__ import annotations

import json
import lzma
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from inference.ports.fitted.fit import FEWEST_TO_FIT, ResourceMapping, TimedMix
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    T = TypeVar("T")

MIXES_FORM = '{"instructions": [names], "experiments": [[[numbers], cycles], ...]}'
"""What a file of mixes holds. Cycles are null for a mix that is to be predicted only."""

MAPPING_FORM = (
    '{"classes": [{"class": 0, "loads": {"r0": 0.25}, "instructions": [names]}, ...],'
    ' "contention": [{"classes": [0, 1], "longer": 0.06}, ...]}'
)
"""What a file of a mapping holds."""

MOST_INSTRUCTIONS, MOST_MIXES = 20_000, 500_000
"""Instructions and mixes of a file: more would take longer than anybody waits."""

MOST_BYTES = 256 << 20
"""Bytes of a file, unpacked: as many mixes as can be fitted have about a tenth of it."""

LONGEST_NAME = 200
"""Characters: to longer ones nothing similar is looked for, as it would take long."""

LEAST_CYCLES, MOST_CYCLES = 0.001, 1_000_000.0
"""Cycles of a mix: no instruction takes less or more."""


class MixesError(UopscopeError):
    """A file of mixes or of a mapping that cannot be used."""


@dataclass(frozen=True, slots=True)
class Mixes:
    """The names of instructions, and mixes of them; `cycles` of a mix are None if nobody measured it."""

    names: tuple[str, ...]
    mixes: tuple[tuple[int, ...], ...]
    cycles: tuple[float | None, ...]

    def timed(self) -> list[TimedMix]:
        """Return the mixes that have a time."""
        return [TimedMix(mix, time) for mix, time in zip(self.mixes, self.cycles, strict=True) if time is not None]

    def check_enough(self, path: Path) -> None:
        """Check that each instruction is in a mix that was measured, and that enough of them are of several ones.

        Raises:
            MixesError: nothing is known of an instruction, or the mixes are too few.
        """
        there = {number for one in self.timed() for number in one.instructions}
        missing = next((name for number, name in enumerate(self.names) if number not in there), None)
        if missing is not None:
            raise MixesError(
                f"{path}: {missing[:80]!r} is in no mix that was measured", hint="leave it out, or measure it alone"
            )
        several = sum(len(set(one.instructions)) > 1 for one in self.timed())
        if several < FEWEST_TO_FIT:
            raise MixesError(
                f"{path}: {several} measured mixes of several instructions are too few",
                hint=f"measure at least {FEWEST_TO_FIT}: some are held back, to choose a fit and to judge it",
            )


@dataclass(frozen=True, slots=True)
class NamedMapping:
    """A fitted mapping, and the names of its instructions."""

    names: tuple[str, ...]
    mapping: ResourceMapping

    def numbers(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of these instructions.

        Raises:
            MixesError: the mapping lacks one.
        """
        known = {name: number for number, name in enumerate(self.names)}
        missing = next((name for name in names if name not in known), None)
        if missing is not None:
            near = {name.casefold(): name for name in self.names}
            found = get_close_matches(missing.casefold(), near, n=3) if len(missing) <= LONGEST_NAME else []
            such = ", ".join(repr(near[one][:80]) for one in found) or repr(self.names[0][:80])
            raise MixesError(
                f"the mapping has no instruction {missing[:80]!r}",
                hint=f"it has {len(self.names)}, such as {such}; in --mix ; stands between instructions",
            )
        return tuple(known[name] for name in names)


def read_mixes(path: Path) -> Mixes:
    """Return the names of instructions and the mixes of a file.

    Raises:
        MixesError: it cannot be read, or is not of that form.
    """
    data = _read(path, MIXES_FORM)
    if "classes" in data and "experiments" not in data:
        raise MixesError(f"{path}: a mapping, and no mixes", hint=f"expected {MIXES_FORM}")
    _check_keys(path, data, {"instructions", "experiments"}, MIXES_FORM)
    return _formed(path, MIXES_FORM, lambda: _mixes(path, data))


def read_mapping(path: Path) -> NamedMapping:
    """Return the mapping in a file that `uopscope ports fit` wrote.

    Raises:
        MixesError: it cannot be read, or is not of that form.
    """
    data = _read(path, MAPPING_FORM)
    if "experiments" in data and "classes" not in data:
        raise MixesError(
            f"{path}: mixes, and no mapping",
            hint=f"`uopscope ports fit {path} -o mapping.json` makes a mapping of them",
        )
    _check_keys(path, data, {"classes", "contention", "errors"}, MAPPING_FORM)
    return _formed(path, MAPPING_FORM, lambda: _mapping(data))


def mapping_json(found: NamedMapping) -> dict[str, object]:
    """Return what the file of a mapping holds."""
    members: dict[int, list[str]] = {}
    for number, one in enumerate(found.mapping.class_of):
        members.setdefault(one, []).append(found.names[number])
    place = {one: number for number, one in enumerate(sorted(members))}
    return {
        "classes": [
            {
                "class": place[one],
                "loads": {
                    f"r{at}": rounded for at, load in enumerate(found.mapping.loads[one]) if (rounded := round(load, 4))
                },
                "instructions": members[one],
            }
            for one in place
        ],
        "contention": [
            {"classes": [place[one] for one in pair], "longer": round(share, 4)}
            for pair, share in found.mapping.contention.items()
        ],
    }


def _read(path: Path, form: str) -> dict[str, Any]:
    """Return the object that a JSON file holds, packed or not."""
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise MixesError(f"{path}: {error.strerror or error}") from error
    except (lzma.LZMAError, EOFError) as error:
        raise MixesError(f"{path}: not an .xz file, or a part of one ({error})") from error
    if len(text) > MOST_BYTES:
        raise MixesError(f"{path}: more than {MOST_BYTES >> 20} MB, unpacked", hint="use a part of it")
    if not text.strip():
        raise MixesError(f"{path}: the file is empty", hint=f"expected {form}")
    data = _formed(path, form, lambda: json.loads(text, object_pairs_hook=_object))
    if not isinstance(data, dict):
        raise MixesError(f"{path}: {_JSON_KINDS[type(data)]}, and no object", hint=f"expected {form}")
    return data


_JSON_KINDS = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false"}
_JSON_KINDS[type(None)] = "null"


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object, none of whose keys stands there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        message = f"the key {next(name for name in names if names.count(name) > 1)[:40]!r} stands there twice"
        raise ValueError(message)
    return found


def _check_keys(path: Path, data: Mapping[str, object], known: AbstractSet[str], form: str) -> None:
    """Refuse keys that nobody reads, such as a unit of time: cycles are meant."""
    unknown = next((name for name in data if name not in known), None)
    if unknown is not None:
        raise MixesError(f"{path}: unknown key {unknown[:40]!r}", hint=f"expected {form}")


def _formed(path: Path, form: str, read: Callable[[], T]) -> T:
    """Return what is read, or say which form was expected."""
    try:
        return read()
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        match error:
            case json.JSONDecodeError():
                what = f"no JSON: {error}"
            case KeyError():
                what = f"{str(error)[:80]} is missing"
            case _:
                what = str(error)[:80]
        raise MixesError(f"{path}: not of the expected form ({what})", hint=f"expected {form}") from error


def _mixes(path: Path, data: Mapping[str, Any]) -> Mixes:
    names = _names(data["instructions"])
    if not 0 < len(names) <= MOST_INSTRUCTIONS:
        raise MixesError(f"{path}: {len(names)} instructions; there may be 1 to {MOST_INSTRUCTIONS}")
    experiments = _list(data["experiments"], "experiments")
    if len(experiments) > MOST_MIXES:
        raise MixesError(f"{path}: {len(experiments)} mixes; {MOST_MIXES} can be fitted", hint="use a part of them")
    mixes, cycles = [], []
    for number, one in enumerate(experiments):
        try:
            mix, time = _pair(one)
            mixes.append(_numbers(mix, len(names)))
            cycles.append(None if time is None else _number(time, LEAST_CYCLES, MOST_CYCLES, "cycles"))
        except (ValueError, TypeError) as error:
            raise MixesError(
                f"{path}: experiment {number}: {error}",
                hint="an experiment is [[numbers], cycles]; instructions are numbers from 0 on, cycles are positive",
            ) from error
    return Mixes(names, tuple(mixes), tuple(cycles))


def _mapping(data: Mapping[str, Any]) -> NamedMapping:
    classes = _list(data["classes"], "classes")
    if [_whole(one["class"]) for one in classes] != list(range(len(classes))):
        message = "classes are numbered 0, 1, ... in their order"
        raise ValueError(message)
    members = [_names(one["instructions"]) for one in classes]
    loads = [_loads(one["loads"]) for one in classes]
    width = 1 + max((resource for one in loads for resource in one), default=-1)
    names = _names([name for some in members for name in some])
    if not names or not width:
        message = "a mapping has instructions and loads"
        raise ValueError(message)
    contention = {}
    for one in _list(data.get("contention", []), "contention"):
        first, second = sorted(_numbers(one["classes"], len(classes)))
        contention[first, second] = _number(one["longer"], 0, MOST_CYCLES, "longer")
    class_of = tuple(place for place, some in enumerate(members) for _ in some)
    rows = tuple(tuple(one.get(resource, 0.0) for resource in range(width)) for one in loads)
    return NamedMapping(names, ResourceMapping(class_of, rows, contention))


def _loads(value: Mapping[str, object]) -> dict[int, float]:
    """Return the loads on resources, by the resource's number."""
    return {_resource(name): _number(load, 0, MOST_CYCLES, name) for name, load in dict(value).items()}


def _pair(value: object) -> tuple[object, object]:
    if not isinstance(value, list) or len(value) != 2:
        message = f"{str(value)[:40]!r} is no pair of a mix and its cycles"
        raise TypeError(message)
    return value[0], value[1]


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        message = f"{what}: not a list"
        raise TypeError(message)
    return value


def _names(value: object) -> tuple[str, ...]:
    found = _list(value, "instructions")
    wrong = next((one for one in found if not isinstance(one, str) or not one.strip()), None)
    if wrong is not None:
        message = f"{str(wrong)[:40]!r} is no name of an instruction"
        raise TypeError(message)
    twice = next((one for one in found if found.count(one) > 1), None) if len(set(found)) < len(found) else None
    if twice is not None:
        message = f"the instruction {twice[:40]!r} has two numbers"
        raise ValueError(message)
    return tuple(found)


def _numbers(value: object, count: int) -> tuple[int, ...]:
    found = tuple(_whole(one) for one in _list(value, "instructions"))
    if not found:
        message = "an empty list"
        raise ValueError(message)
    unknown = next((one for one in found if not 0 <= one < count), None)
    if unknown is not None:
        message = f"there is no number {unknown}: the last one is {count - 1}"
        raise ValueError(message)
    return found


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"{str(value)[:40]!r} is not a whole number"
        raise TypeError(message)
    return value


def _number(value: object, least: float, most: float, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        message = f"{what}: {str(value)[:40]!r} is not a number"
        raise TypeError(message)
    if not least <= value <= most:  # also if it is NaN
        message = f"{what}: {str(value)[:40]} is not between {least:g} and {most:g}"
        raise ValueError(message)
    return float(value)


def _resource(name: str) -> int:
    """Return the number in the name of a resource (`r3`)."""
    match = re.fullmatch(r"r(0|[1-9][0-9]{0,2})", name)
    if match is None:
        message = f"{name[:40]!r} is no resource (expected r0, r1, ...)"
        raise ValueError(message)
    return int(match[1])
