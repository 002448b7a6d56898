"""What is found on cores that count by unit, or only some ports.

    python -m benchmarks.accuracy.unit_counters SKX:LNL-P

A simulated machine has the counters of another CPU's table (`simulator.machines.units`). Its variants are
characterized, and what is stated is compared with what its µops do. The table says how often each unit's count and the
ports are the same, not stated, or wrong.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from inference.characterizer import Characterizer
from results.model import PortUsage
from runner.backends.sim import create
from runner.measuring.protocol import Measurer
from runner.measuring.session import Limits, Session, Task
from runner.uarch.tables import is_port_counter
from simulator.machines.units import UnitCounter, task_of, unit_counters
from xed_convert.catalogue.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from results.model import Characterization
    from simulator.machines.machine import MachineModel
    from xed_convert.model import InstructionVariant

SAME, UNKNOWN, WRONG = "same", "not stated", "wrong"


def true_count(machine: MachineModel, variant: InstructionVariant, unit: UnitCounter) -> int | None:
    """Return how many µops of a variant a unit's counter counts (None: some are eliminated, or it has other ports)."""
    behaviour = machine.behaviour(variant)
    if behaviour is None or behaviour.eliminated_share[0]:
        return None
    uops = [uop for uop in behaviour.uops if uop.ports]
    return sum(unit.counts(task_of(variant, uop), uop.ports, machine.parameters) for uop in uops)


def true_usage(
    machine: MachineModel, variant: InstructionVariant, counters: Sequence[UnitCounter], kind: str
) -> PortUsage:
    """Return the usage of the ports that have counters."""
    behaviour = machine.behaviour(variant)
    uops: Counter[frozenset[str]] = Counter()
    for uop in behaviour.uops if behaviour is not None else ():
        task = task_of(variant, uop)
        ports = frozenset(
            kind + port for one in counters if one.counts(task, uop.ports, machine.parameters) for port in one.name[1:]
        )
        uops[ports] += bool(ports)
    return PortUsage({ports: count for ports, count in uops.items() if count})


def compare(
    found: Characterization, variant: InstructionVariant, machine: MachineModel, table: str, kind: str
) -> Iterator[tuple[str, str]]:
    """Yield what of a conclusion is compared, and the outcome."""
    units = unit_counters(table)
    for unit in units:
        true = None if is_port_counter(unit.name) else true_count(machine, variant, unit)
        if true is not None:
            counted = found.attributes.get(unit.name, 0 if "uops_retire_slots" in found.attributes else None)
            yield unit.name, SAME if counted == true else UNKNOWN if counted is None else WRONG
    ports = [one for one in units if is_port_counter(one.name)]
    truth = true_usage(machine, variant, ports, kind)
    if ports and (truth.total or found.ports is not None):
        yield "ports", UNKNOWN if found.ports is None else SAME if str(found.ports) == str(truth) else WRONG


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("machine", help="a simulated machine with the counters of a table (SKX:LNL-P, SKX:ZEN2)")
    parser.add_argument("--every", type=int, default=100, help="only every N-th variant")
    parser.add_argument("--offset", type=int, default=0, help="begin at this one")
    options = parser.parse_args()
    backend, catalogue, table = create(None, options.machine), Catalogue.load(), options.machine.rpartition(":")[2]
    kind = backend.info().port_kind
    characterizer = Characterizer(catalogue, backend.info().capabilities, by_time=False)
    session = Session(Measurer(backend), limits=Limits(keep_raw=False))
    there = [one for one in catalogue if not characterizer.skipped(one) and not backend.lacks(one)]
    variants = there[options.offset :: options.every]
    context = session.run_one(characterizer.prepare(variants))
    outcomes: Counter[tuple[str, str]] = Counter()
    for outcome in session.run(Task(one.string, characterizer.characterize(one, context)) for one in variants):
        if outcome.result is None:
            print(f"! {outcome.name}: {outcome.error}")
            continue
        variant = catalogue.by_string(outcome.result.string)
        for what, how in compare(outcome.result, variant, backend.machine, table, kind):
            outcomes[what, how] += 1
            if how == WRONG:
                print(f"{variant.string}\t{what}\t{outcome.result.attributes}\t{outcome.result.ports}")
    for (what, how), count in sorted(outcomes.items()):
        print(f"{what}\t{how}\t{count}")
    print(f"# {len(variants)} of {len(there)} variants of {options.machine}")


if __name__ == "__main__":
    main()
