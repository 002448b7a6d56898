"""Facts that all variants of a machine share: its counters, blocking instructions, and the times of chain links."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.factory import InstructionFactory
    from generator.sequences.blocking import CodeKind
    from inference.calibration import Calibrations
    from inference.ports.alone.layout import PortLayout
    from inference.ports.blocking_instructions import BlockingSet
    from inference.ports.by_time.machine import TimedMachine


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What can be measured on a machine, whichever backend does it.

    - `counters`: names of everything that is counted; `ports` are those that count µops per port ("p0", "p23").
    - `loops_only`: even unrolled code runs in a loop, because the clock is too coarse for one pass.
    - `privileged`: code runs at privilege level 0.
    - `first_decoder`: one decoder takes any instruction, and all others simple ones only.
    - `architecture`: the name under which ports may have been published.
    - `port_kind`: the only kind of ports that is counted ("": all are).
    """

    counters: tuple[str, ...]
    ports: tuple[str, ...] = ()
    loops_only: bool = False
    privileged: bool = False
    first_decoder: bool = False
    architecture: str = ""
    port_kind: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """What every variant's inference needs to know of the machine.

    `calibrations` fills up as links are first needed, and is shared between variants. With `loops_only`, code must
    leave the stack pointer and string registers as it found them. `first_decoder` is that of `Capabilities`. `timed`
    are the machine's port sets found by time alone (None: none were found, or counters count µops per port).
    """

    instructions: InstructionFactory
    layout: PortLayout
    counters: tuple[str, ...]
    calibrations: Calibrations
    blocking: Mapping[CodeKind, BlockingSet] = field(default_factory=dict)
    loops_only: bool = False
    first_decoder: bool = False
    timed: TimedMachine | None = None

    @property
    def counts_ports(self) -> bool:
        """Whether port usage can be measured."""
        return bool(self.layout.counters)
