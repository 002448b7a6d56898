"""Inside the guest: every counter of every core of `tests.vm.cores`, programmed by the module; prints the accesses."""

import json
from pathlib import Path

from generator.harness.harness import Reader, render
from generator.microbenchmark import Line, Microbenchmark
from runner.backend import BackendError
from runner.host.kmod import abi
from runner.host.kmod.device import BlobJob, Device
from runner.host.kmod.passes import Hardware, countable, plan
from runner.uarch import tables
from tests.vm.cores import CORES
from tests.vm.fakepmu import accesses

FAKE = Path("/dev/fakepmu")
HELD = Path("/sys/module/fakepmu/parameters/held")
NOP = Microbenchmark((), (Line(b"\x90", "NOP"),), "nothing")


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
            BlobJob(render(NOP, 1, 0, Reader(tuple(slot.rdpmc for slot in slots))), slots, 0, 1, abi.MAX_TIME_NS)
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
            print("HELD", while_held(jobs))


def while_held(jobs: list[BlobJob]) -> str:
    """Return what is said of a batch while somebody else has a counter."""
    HELD.write_text("1")
    device = Device(0)
    try:
        device.run(jobs)
    except BackendError as error:
        return error.message
    finally:
        device.close()
        HELD.write_text("0")
    return "nothing"


main()
