"""Whether the emulated PMU could answer what was read."""

import re

from tests.vm.machines.machine import MachineOutput


def check_reads(output: MachineOutput) -> None:
    """Reads were of blobs and events that the simulator had counted: inference asked for the same code.

    One read in a thousand may miss: if the guest's kernel disturbs a job, inference may ask for another one instead.
    """
    match = re.search(r"^MISSING (\d+) READS (\d+)$", output.text, re.MULTILINE)
    assert match, output.everything
    missing, reads = map(int, match.groups())
    assert reads > 10_000
    assert missing <= reads // 1000, output.everything
