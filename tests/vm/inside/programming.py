"""Inside the guest: the module programs every counter of every core of `tests.vm.pmu.cores`; prints the accesses."""

import json
from pathlib import Path

from generator.harness.harness import CounterReader, render
from generator.microbenchmark import Line, Microbenchmark
from runner.backend import BackendError
from runner.host.kmod import abi
from runner.host.kmod.device import BlobJob, Device
from runner.host.kmod.passes import Hardware, Slot, countable, plan
from runner.uarch import tables
from tests.vm.pmu.cores import CORES, REGISTER_SETS, REGISTERS, UNCORE_COUNTER
from tests.vm.pmu.fakepmu import accesses, register_records

FAKE = Path("/dev/fakepmu")
HELD = Path("/sys/module/fakepmu/parameters/held")
MORE_CR4 = Path("/sys/module/fakepmu/parameters/more_cr4")
FRED = 1 << 32
"""CR4.FRED (Intel, Flexible Return and Event Delivery specification, section 3.1)."""

NOP = Microbenchmark((), (Line(b"\x90", "NOP"),), "nothing")
SLOT = Slot("uncore", abi.COUNTER_MSR, UNCORE_COUNTER, 0)
READ = CounterReader((UNCORE_COUNTER,), "rdmsr")


def main() -> None:
    for name, pmu in CORES.items():
        with FAKE.open("wb", buffering=0) as fake:
            fake.write(pmu.records())
        device = Device(0)
        info = device.information
        hardware = Hardware.of_masks(info.prog_mask, info.fixed_mask, info.config_mask)
        uarch = tables.by_name(name)
        runs = plan(uarch, hardware, countable(uarch, hardware))
        jobs = [
            BlobJob(render(NOP, 1, 0, CounterReader(tuple(slot.rdpmc for slot in slots))), slots, 0, 1, abi.MAX_TIME_NS)
            for slots in runs
        ]
        results = device.run(jobs)
        device.close()
        report = {
            "core": name,
            "info": {field: getattr(info, field) for field in ("pmu_kind", "pmu_version", "prog_mask", "fixed_mask")},
            "counters": countable(uarch, hardware),
            "runs": [[(slot.counter, slot.kind, slot.index) for slot in slots] for slots in runs],
            "statuses": [result.status.name for result in results],
            "smis": [result.smis for result in results],
            "clocks": [(result.aperf, result.mperf) for result in results],
            "accesses": [(each.msr, each.value, each.is_write, each.unknown) for each in accesses(FAKE.read_bytes())],
        }
        print("REPORT", json.dumps(report))
        if name == list(CORES)[-1]:
            print("HELD", refused(jobs, HELD, 1))
            print("FRED", refused(jobs, MORE_CR4, FRED))
            print("AGAIN", refused(jobs, MORE_CR4, 0))
    print("REGISTERS", json.dumps(registers()))


def registers() -> dict[str, object]:
    """Run `REGISTER_SETS` one after another; return the statuses, and the writes of registers beside the PMU's own."""
    with FAKE.open("wb", buffering=0) as fake:
        fake.write(CORES["HSW"].records() + register_records(REGISTERS))
    device = Device(0)
    results = device.run(
        [
            BlobJob(render(NOP, 1, 0, READ), (SLOT,) if reads else (), 0, 1, abi.MAX_TIME_NS, writes=writes)
            for writes, reads in REGISTER_SETS
        ]
    )
    device.close()
    known = {*REGISTERS, *(msr for writes, _ in REGISTER_SETS for msr, _ in writes)}
    written = [(each.msr, each.value) for each in accesses(FAKE.read_bytes()) if each.is_write and each.msr in known]
    return {"results": [(one.status.name, one.error) for one in results], "written": written}


def refused(jobs: list[BlobJob], parameter: Path, value: int) -> str:
    """Return what is said of a batch while somebody else has a counter, or the CPU seems to be another one."""
    parameter.write_text(str(value))
    device = Device(0)
    try:
        device.run(jobs)
    except BackendError as error:
        return error.message
    finally:
        device.close()
        parameter.write_text("0")
    return "nothing"


main()
