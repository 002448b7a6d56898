"""Inside the guest: blocks that read and write anywhere, by the kmod backend; then raw blobs that no process has tried.

Prints a line of JSON for each block (status, detail) and for each blob (status, vector, offset, address, pages).
"""

import json
import os

from generator.harness.style import State
from generator.microbenchmark import Line, Microbenchmark
from runner.backend import Conditions, Job, Repeat
from runner.backends.kmod import create
from runner.host.kmod import abi
from runner.host.kmod.device import BlobJob, BlobResult, Device
from tests.vm.on_demand import BLOBS, BLOCKS, ENTRY, VALUE


def main() -> None:
    backend = create(cpu=1)
    counters = backend.info().counters
    modes = {state: Conditions(state=state, value=VALUE, loop_register="r15") for state in (State.AGAIN, State.GIVEN)}
    kept = Conditions(state=State.AGAIN, value=VALUE, keeps_pages=True)
    for name, code in BLOCKS.items():
        block = Microbenchmark((), (Line(bytes.fromhex(code), name),), "a block")
        jobs = [Job(block, 8, 3, conditions=asked) for asked in (*modes.values(), kept)]
        results = backend.run(jobs, counters, Repeat(1, 3, 2.0))
        reports = [(one.status.value, one.detail, [len(values) for values in one.samples.values()]) for one in results]
        print("BLOCK", json.dumps({name: reports}))
    backend.close()
    raw()


def raw() -> None:
    """Run each blob twice, with one between that uses no memory."""
    os.sched_setaffinity(0, {1})
    device = Device(1)
    good = BlobJob(bytes(ENTRY) + b"\xc3", (), 0, 1, abi.MAX_TIME_NS)
    for name, code in BLOBS.items():
        limit = 50_000_000 if name == "an endless loop" else abi.MAX_TIME_NS
        blob = bytes(ENTRY) + bytes.fromhex(code)
        job = BlobJob(blob, (), 0, 2, limit, flags=abi.JobFlag.ON_DEMAND, value=VALUE)
        first, between, second = device.run([job, good, job])
        print("BLOB", json.dumps({name: [told(first), told(between), told(second)]}))
    keeping = [
        BlobJob(bytes(ENTRY) + bytes.fromhex(BLOBS["two pages"]), (), 0, 1, abi.MAX_TIME_NS, flags=flags)
        for flags in (abi.JobFlag.ON_DEMAND, abi.JobFlag.ON_DEMAND | abi.JobFlag.KEEP_PAGES)
    ]
    first, second = device.run(keeping)
    print("BLOB", json.dumps({"kept": [told(first), told(second)]}))
    wrong = [
        BlobJob(good.blob, (), 0, 1, abi.MAX_TIME_NS, flags=abi.JobFlag.KEEP_PAGES),
        BlobJob(good.blob, (), 0, 1, abi.MAX_TIME_NS, value=1),
    ]
    print("BLOB", json.dumps({"wrong": [told(one) for one in device.run(wrong)]}))
    device.close()
    masked = Device(1, abi.BatchFlag.MASK_LVT)
    print("BLOB", json.dumps({"masked": [told(one) for one in masked.run([job])]}))
    masked.close()


def told(result: BlobResult) -> dict[str, object]:
    names = ("vector", "error", "error_code", "offset", "address", "pages")
    return {"status": result.status.name, "changed": int(result.changed)} | {one: getattr(result, one) for one in names}


if __name__ == "__main__":
    main()
