"""The figures of a simulated machine: the share of its truth that inference finds.

Counted once per variant:

- `variants`: those that the machine has and that can be measured
- `ports_right`: the stated port usage is the true one; `ports_wrong`: another one is stated, of the plain form or
  of another one, each with its own truth. Ports that share a counter may be exchanged, alike in all conclusions about
  the machine (`runner.verification.port_names`)
- `ports_named`: none is stated, but a few that cannot be told apart are named, and the true one is among them
- `ports_proved`: none is stated, and a machine with another usage gives the same in every measurement
  (`runner.verification.indistinguishable`); `ports_alike`: such a machine's usage is stated
- `ports_unstated`: none is stated, for another reason
- `ports_named_wrong`: of some form, usages are named as the only ones, and the true one of that form is not among them
- `uops_right`; `same_register`, `same_register_right`: port usages with one register in all operands
- `tp_right`: the least measured throughput is within 2% of what ports, issue width and divider allow (more where the
  machine's counters are off without showing it: `CounterNoise.hidden_share`); `tp_slower`:
  dependencies that cannot be broken make it slower; `tp_wrong`: it is faster than that, or none was measured

Counted once per latency (`pairs`), as `simulator.judging.latency` and `simulator.judging.slack` judge it:

- `pairs_exact`: exact and right
- `pairs_least`: an upper bound that an indistinguishable machine has as its latency
- `pairs_free`: another upper bound, where an indistinguishable machine has another latency
- `pairs_bound`: an upper bound otherwise
- `pairs_contention`: more than the longest path, because µops of the instruction delay each other on their ports
- `pairs_untold`: an upper bound where the machine has no dependency
- `pairs_wrong`: a wrong number, a bound that is too low, nothing said about a latency, or a latency called exact
  although an indistinguishable machine has another

`measurements` are per variant; `seconds` are of CPU time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulator.machines.shipped import names
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from xed_convert.model import InstructionVariant

COLUMNS = (
    "machine",
    "variants",
    "ports_right",
    "ports_named",
    "ports_unstated",
    "ports_proved",
    "ports_alike",
    "ports_wrong",
    "uops_right",
    "tp_right",
    "tp_slower",
    "tp_wrong",
    "same_register",
    "same_register_right",
    "pairs",
    "pairs_exact",
    "pairs_least",
    "pairs_free",
    "pairs_bound",
    "pairs_contention",
    "pairs_untold",
    "pairs_wrong",
    "measurements",
    "seconds",
)


@dataclass
class Report:
    """The figures of one machine and what was not found again."""

    machine: str
    counts: Counter[str] = field(default_factory=Counter)
    exceptions: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def row(self) -> str:
        """Return the figures as a line of the table."""
        per_variant = self.counts["measurements"] / max(1, self.counts["variants"])
        values = {"machine": self.machine, "measurements": f"{per_variant:.1f}", "seconds": f"{self.seconds:.0f}"}
        return "\t".join(str(values.get(column, self.counts[column])) for column in COLUMNS)

    def note(self, variant: InstructionVariant, what: str, found: object, true: object) -> None:
        """Keep what was not found again."""
        self.exceptions.append(f"{self.machine}\t{variant.string}\t{what}\t{found}\t{true}")


def keep(path: Path, report: Report) -> None:
    """Put the row of a machine into a table, in the place of an older one; the shipped machines come in their order.

    What was not found again goes to a file beside it (`truth_campaign_exceptions.tsv`), but for throughput that
    dependencies make slower.
    """
    _replace(path, report.machine, [report.row()], "\t".join(COLUMNS))
    lines = [line for line in report.exceptions if line.split("\t")[2] != "tp_slower"]
    _replace(
        path.with_name(f"{path.stem}_exceptions.tsv"), report.machine, lines, "machine\tvariant\twhat\tfound\ttrue"
    )


def _replace(path: Path, machine: str, lines: Sequence[str], heading: str) -> None:
    """Replace the lines of a machine in a file."""
    old = path.read_text(encoding="utf-8").splitlines()[1:] if path.exists() else []
    kept = [line for line in old if line.partition("\t")[0] != machine]
    places = {name: place for place, name in enumerate(names())}
    ordered = sorted([*kept, *lines], key=lambda line: places.get(line.partition("\t")[0], len(places)))
    with atomic_write(path) as file:
        file.write("\n".join([heading, *ordered, ""]).encode())
