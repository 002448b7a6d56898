"""The interface of a backend, which runs a batch of microbenchmarks and returns raw samples.

`BackendInfo.counters` lists the counters of a backend. Their names:

- `core_cycles`: core clock cycles while not halted; `reference_cycles`: those of the reference clock meanwhile;
- `tsc`: ticks of the time-stamp counter;
- `calibration`: ticks of a chain that takes `BackendInfo.calibration_core_cycles` core cycles. It runs beside each
  repetition, and turns ticks into core cycles;
- `contention_probe`: ticks of the contention probe, code that keeps every ALU busy. It runs beside each
  repetition, and takes longer while another thread uses the same core. It also loads where a job asks for that;
- `instructions`: retired instructions;
- `uops_issued`, `uops_executed`, `uops_retire_slots`, `uops_MITE`, `uops_MS`, `divider_active`: as in PMU events;
- `p0`, `p1`, `p23` ...: µops dispatched to that port, or to any of those ports where they share a counter. With
  `BackendInfo.port_kind` only ports of that kind have counters;
- `unit_ALU`, `unit_LOAD` ...: µops dispatched to execution units of that kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from generator.harness.style import State, Style
from inference.context import Capabilities
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from generator.microbenchmark import Microbenchmark
    from results.model import Provenance, Status
    from xed_convert.model import InstructionVariant


CONTENTION_PROBE = "contention_probe"
"""The counter of the contention probe. Campaign files and the kernel module's reports have it under this name."""

HIDDEN = ":no-counters"
"""At the end of a simulated machine's name: only time can be read, as `--hide-counters` asks for."""

CLOCK_COUNTERS = ("tsc", "calibration", CONTENTION_PROBE)
"""What a backend counts that has only a clock."""


class BackendError(UopscopeError):
    """A backend cannot be used here; the hint says what to do."""


class UnknownNameError(BackendError):
    """There is no backend, microarchitecture or simulated machine of that name: the input is wrong, not the machine."""

    exit_code = 2

    @classmethod
    def of(cls, kind: str, name: str, known: Iterable[str]) -> Self:
        """Return the error that names the nearest, or all if none is near."""
        names = list(known)
        by_lower = {one.lower(): one for one in names}
        near = [by_lower[one] for one in get_close_matches(name.lower(), by_lower, n=5, cutoff=0.5)]
        hint = f"nearest: {', '.join(near)}; " if near else ""
        return cls(f"no {kind} {name!r}", hint=f"{hint}there are: {', '.join(names)}")


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """What a backend can count, on which CPU, with what caveats.

    `ports` are the port sets that `counters` can tell apart, as counter names ("p0", "p23"), empty if there are none.
    `is_model` is true where no CPU is measured. `preferred_iterations` is 0 where unrolled code can be measured
    exactly. Else every benchmark needs a loop of this many iterations, to rise above the clock's resolution.
    `most_variants` is 0 where one campaign may have any number of variants. `has_memory`: there are caches and a store
    buffer. `area_bytes` is the size of the area that R14 points to the middle of. `port_kind` is the only kind of ports
    that is counted ("FP"; "": all are).
    """

    name: str
    provenance: Provenance
    counters: tuple[str, ...]
    ports: tuple[str, ...]
    caveats: tuple[str, ...]
    is_model: bool = False
    preferred_iterations: int = 0
    calibration_core_cycles: int = 0
    supports_privileged: bool = False
    most_variants: int = 0
    has_memory: bool = True
    area_bytes: int = 1 << 20
    port_kind: str = ""

    @property
    def capabilities(self) -> Capabilities:
        """Return what inference needs to know of it."""
        return Capabilities(
            self.counters,
            self.ports,
            self.preferred_iterations > 0,
            self.supports_privileged,
            has_first_decoder(self.provenance.architecture),
            self.provenance.architecture,
            self.port_kind,
        )


@dataclass(frozen=True, slots=True)
class Conditions:
    """What code of a user may ask for; `offset_bytes` to `loop_register`, and `warm_up`, are those of `Style`.

    In states but ZERO, `value` is in all registers and in the page that serves all addresses. `keeps_pages` keeps the
    pages that the job before has touched. System calls are refused unless the code `may_call`. `stepped` code runs one
    instruction at a time, in the state AGAIN. Its result has no samples, and the detail says what is misaligned.
    """

    offset_bytes: int = 0
    drained: bool = False
    state: State = State.ZERO
    loop_register: str = "r15"
    value: int = 0
    keeps_pages: bool = False
    may_call: bool = False
    stepped: bool = False
    warm_up: int = 0


USUAL = Conditions()


def has_first_decoder(architecture: str) -> bool:
    """Whether a core is known to have one decoder that takes any instruction, and others for simple ones only."""
    from results.machine.constants import core_of  # noqa: PLC0415 - a tenth of what one measurement imports
    from results.machine.graph import ModelError  # noqa: PLC0415

    try:
        front = core_of(architecture).front_end
    except ModelError:
        return False
    return front is not None and front.simple_decoders > 0


class Job(NamedTuple):
    """One run of a microbenchmark: `copies` of its body, in a loop of `iterations` (0: no loop).

    In a fenced loop every iteration begins with an LFENCE, so that iterations do not overlap. It measures what one run
    of the unrolled copies would, on a clock too coarse for that. With `loads_beside`, its contention probe also loads,
    so it sees a neighbour that delays loads but leaves the ALUs free.
    """

    benchmark: Microbenchmark
    copies: int
    iterations: int = 0
    fenced: bool = False
    conditions: Conditions = USUAL
    loads_beside: bool = False

    def style(self, *, clean_uppers: bool) -> Style:
        """Return what the harness needs to know to render it."""
        asked = self.conditions
        return Style(
            self.fenced,
            clean_uppers,
            asked.offset_bytes,
            asked.drained,
            asked.state,
            asked.loop_register,
            asked.warm_up,
            clear_end=True,
        )


@dataclass(frozen=True, slots=True)
class Repeat:
    """How often each job is run: warm-up runs that are thrown away, then repetitions that are kept."""

    warm_ups: int = 1
    repetitions: int = 100
    time_limit_seconds: float = 1.0


class JobResult(NamedTuple):
    """Raw differences per counter, one integer per repetition, or the reason why there are none."""

    status: Status
    samples: Mapping[str, tuple[int, ...]]
    detail: str = ""


@runtime_checkable
class KnowsCpu(Protocol):
    """A backend that can say which instructions its CPU lacks, so that these are not tried."""

    def lacks(self, variant: InstructionVariant) -> str:
        """Return the reason why nothing of a variant can be measured ("": it can, as far as is known)."""


@dataclass(frozen=True, slots=True)
class ExecutionEnvironment:
    """What code may ask for around it, beyond what a backend gives by itself.

    - `r14_bytes`: the size of the area that R14 points to the middle of (0: the backend's own).
    - `contiguous`: areas are physically contiguous.
    - `idle_siblings`: nothing else runs on the other threads of the core.
    """

    r14_bytes: int = 0
    contiguous: bool = False
    idle_siblings: bool = False


PLAIN_ENVIRONMENT = ExecutionEnvironment()


@runtime_checkable
class ProvidesEnvironment(Protocol):
    """A backend that can change what is around code."""

    def provide(self, asked: ExecutionEnvironment) -> None:
        """Run all code from here on in this environment.

        Raises:
            BackendError: it cannot be had here; nothing has changed.
        """


Lacks: TypeAlias = "Callable[[InstructionVariant], str]"
"""Returns the reason why the machine at hand cannot run a variant ("": it can)."""


def lacks_nothing(_variant: InstructionVariant) -> str:
    """Answer for machines that cannot tell what they lack."""
    return ""


class Backend(Protocol):
    """Runs batches. A benchmark that faults or hangs is a result with a status, never an exception."""

    name: str

    def info(self) -> BackendInfo:
        """Say what this backend can count here.

        Raises:
            BackendError: it cannot be used on this machine.
        """

    def run(self, batch: Sequence[Job], counters: Sequence[str], repeat: Repeat) -> list[JobResult]:
        """Run every job, in order, and return as many results."""

    def close(self) -> None:
        """Give back what was taken (child processes, devices)."""


def lacks_of(backend: Backend) -> Lacks:
    """Return what tells which variants the CPU of a backend lacks."""
    return backend.lacks if isinstance(backend, KnowsCpu) else lacks_nothing
