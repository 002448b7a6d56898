"""The options of `measure` and `sweep` in Python: those of `uopscope measure`, by the same names."""

from __future__ import annotations

from os import PathLike  # noqa: TC003 - `typing.get_type_hints` reads the annotation
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from runner.backend import ExecutionEnvironment
from runner.backends.registry import AUTO, open_backend
from runner.own_code.counters import choose
from runner.own_code.measure import Settings
from runner.own_code.template import Template, runs_of, size_of, syntax_of, time_limit_of

if TYPE_CHECKING:
    from runner.backend import Backend


class MeasureOptions(TypedDict, total=False):
    """The options besides the code; `uopscope measure --help` and docs/measure.md explain each.

    Machine: `backend`, `arch`, `cpu`, `model`. Just what to run: `unroll`, `loop`, `repeat`, `warm_up`,
    `initial_warm_up`, `aggregate`, `basic`, `normalize` (true). `on_demand` is the value of registers and memory, which
    is mapped as the code touches it. `time_limit` is in seconds, `offset` in bytes, `area_size` too, or a text like
    "16M".
    """

    backend: str
    arch: str | None
    cpu: int | None
    model: str | PathLike[str] | None
    syntax: str
    counters: str | None
    unroll: int | None
    loop: int | None
    repeat: int | None
    warm_up: int | None
    initial_warm_up: int | None
    aggregate: str | None
    basic: bool
    normalize: bool
    offset: int
    drain: bool
    on_demand: int | None
    allow_syscalls: bool
    force: bool
    area_size: int | str | None
    contiguous: bool
    idle_sibling: bool
    time_limit: float


def template_of(body: str, init: str, late_init: str, one_time_init: str, options: MeasureOptions) -> Template:
    """Return what is to be measured.

    Raises:
        TypeError: there is no such option.
        UopscopeError: an option has a value that it cannot have.
    """
    if unknown := options.keys() - MeasureOptions.__annotations__.keys():
        known = ", ".join(MeasureOptions.__annotations__)
        raise TypeError(f"there is no option {min(unknown)!r}; there are {known}")
    numbers = {
        "unroll": options.get("unroll"),
        "loop": options.get("loop"),
        "measurements": options.get("repeat"),
        "warm_ups": options.get("warm_up"),
        "initial_warm_ups": options.get("initial_warm_up"),
    }
    size = options.get("area_size")
    return Template(
        body,
        init,
        late_init,
        one_time_init,
        syntax_of(options.get("syntax", "intel")),
        Settings(
            runs=runs_of(
                numbers,
                options.get("aggregate"),
                basic=options.get("basic", False),
                normalize=options.get("normalize", True),
            ),
            counters=choose(options.get("counters")),
            offset_bytes=options.get("offset", 0),
            drained=options.get("drain", False),
            on_demand=options.get("on_demand"),
            may_call=options.get("allow_syscalls", False),
            force=options.get("force", False),
            environment=ExecutionEnvironment(
                0 if size is None else size_of(str(size)),
                contiguous=options.get("contiguous", False),
                idle_siblings=options.get("idle_sibling", False),
            ),
            time_limit_seconds=time_limit_of(options.get("time_limit", 1.0)),
        ),
    )


def opened(options: MeasureOptions) -> Backend:
    """Return the backend that the options name.

    Raises:
        BackendError: there is none, or it cannot be used here.
    """
    model = options.get("model")
    return open_backend(
        options.get("backend", AUTO),
        cpu=options.get("cpu"),
        architecture=options.get("arch"),
        model=None if model is None else Path(model),
    )
