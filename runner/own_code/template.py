"""A measurement whose code is still text, with parameters such as `{N}` or `$N`.

    template = Template("add rax, [r14+{N}]")
    measure(template.request({"N": 64}), backend)

Parameters named as in `OPTIONS` set that option instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.own_code.code import MeasureError
from runner.own_code.measure import DEFAULTS, Aggregate, CodeRequest, MachineCode, Runs, Settings
from runner.own_code.reading.sources import code_of, read_text
from runner.own_code.reading.text import OperandSyntax, assemble
from xed_convert.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_VALUES: Mapping[str, int] = {}
RUN_OPTIONS = ("unroll", "loop")
OPTIONS = ("offset", *RUN_OPTIONS)
"""Numbers beside the code that a parameter may set."""


@dataclass(frozen=True, slots=True)
class Template:
    """A `CodeRequest` with code as sources (see `runner.own_code.reading.sources`)."""

    body: str
    init: str = ""
    late_init: str = ""
    one_time_init: str = ""
    syntax: OperandSyntax = OperandSyntax.INTEL
    settings: Settings = DEFAULTS

    @property
    def sources(self) -> tuple[str, ...]:
        """The parts of the code, in the order of `MachineCode`."""
        return (self.body, self.init, self.late_init, self.one_time_init)

    def with_texts(self) -> Template:
        """Return the same with files of text read.

        Raises:
            MeasureError: a file cannot be read, or is no text.
        """
        return replace(
            self,
            body=_text_of(self.body),
            init=_text_of(self.init),
            late_init=_text_of(self.late_init),
            one_time_init=_text_of(self.one_time_init),
        )

    def uses(self, name: str) -> bool:
        """Whether a parameter of that name changes anything; files of text have to be read."""
        return name in OPTIONS or any(_places(name).search(source) for source in self.sources)

    def request(self, values: Mapping[str, int] = NO_VALUES) -> CodeRequest:
        """Return the measurement for these values.

        Raises:
            UopscopeError: the code cannot be read or assembled.
        """
        template = self.with_texts()
        parts = [_code_of(fill(source, values), self.syntax) for source in template.sources]
        settings = replace(self.settings, offset_bytes=values.get("offset", self.settings.offset_bytes))
        if any(name in values for name in RUN_OPTIONS):
            runs = settings.runs or Runs()
            runs = replace(runs, unroll=values.get("unroll", runs.unroll), loop=values.get("loop", runs.loop))
            settings = replace(settings, runs=runs)
        return CodeRequest(MachineCode(*parts), settings)


def fill(source: str, values: Mapping[str, int]) -> str:
    """Put values in the places of their names."""
    for name, value in values.items():
        source = _places(name).sub(str(value), source)
    return source


def _places(name: str) -> re.Pattern[str]:
    return re.compile(rf"\{{{name}\}}|\${name}\b")


TEXT = "\0"
"""Before and behind the name of a file whose text follows, so that it is not taken for another kind of source."""


def _text_of(source: str) -> str:
    return f"{TEXT}{source[1:]}{TEXT}{read_text(Path(source[1:]))}" if source.startswith("@") else source


def _code_of(source: str, syntax: OperandSyntax) -> bytes:
    before, *rest = source.split(TEXT, 2)
    if before or len(rest) < 2:  # what people type may have zeros anywhere
        return code_of(source, syntax)
    name, text = rest
    try:
        return assemble(text, syntax)
    except AssemblyError as error:
        raise error.of_file(name) from error


def syntax_of(name: str) -> OperandSyntax:
    """Return the syntax of a name.

    Raises:
        MeasureError: there is none.
    """
    return OperandSyntax(_one_of("--syntax", name, [one.value for one in OperandSyntax]))


def time_limit_of(seconds: float) -> float:
    """Return the time that one run may take.

    Raises:
        MeasureError: it is too short or too long.
    """
    if not 0.001 <= seconds <= 60:
        raise MeasureError(f"--time-limit {seconds}: not between 0.001 and 60 seconds")
    return seconds


AREA_STEP = 64 << 10
"""Sizes of an area are multiples of this on every backend that offers them."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text: str) -> int:
    """Return a size in bytes; K, M and G stand for powers of 1024.

    Raises:
        MeasureError: it is no number of bytes above 0, or no multiple of `AREA_STEP`.
    """
    found = re.fullmatch(r"([0-9]{1,12})([KMG]?)", text.strip().upper())
    if not found or not int(found[1]):
        raise MeasureError(f"--area-size {text}: no number of bytes", hint="for example 64K, 16M, or 1G")
    size = int(found[1]) * _UNITS[found[2]]
    if size % AREA_STEP:
        raise MeasureError(f"--area-size {text}: not a multiple of 64 KiB", hint="for example 64K, 16M, or 1G")
    return size


def runs_of(
    numbers: Mapping[str, int | None], aggregate: str | None = None, *, basic: bool = False, normalize: bool = True
) -> Runs | None:
    """Return what to run, None if no option says so; what options leave open is nanoBench's default.

    Raises:
        MeasureError: there is no such aggregate.
    """
    given = {name: number for name, number in numbers.items() if number is not None}
    if not (given or aggregate or basic or not normalize):
        return None
    names = [one.value for one in Aggregate]
    chosen = Aggregate(_one_of("--aggregate", aggregate, names)) if aggregate else Aggregate.TRIMMED
    return Runs(**given, aggregate=chosen, basic=basic, normalize=normalize)


def _one_of(option: str, name: str, known: list[str]) -> str:
    if name not in known:
        raise MeasureError(f"{option} {name}: not one of {', '.join(known)}")
    return name
