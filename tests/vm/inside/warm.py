"""Inside the guest: a Python that has imported the project, and forks for each program that a script runs.

Imports take ten seconds under TCG. The shell function `python` (`tests.vm.machines.images`) writes what is to run, a
line each: the number of the shell's process, whose output the program gets, and the arguments of `python`.
"""

import gc
import importlib
import os
import runpy
import sys
from pathlib import Path

REQUEST, ENVIRONMENT = Path("/tmp/python.request"), Path("/tmp/python.environment")  # noqa: S108 - the guest is ours
REQUESTS, ANSWERS = Path("/tmp/python.requests"), Path("/tmp/python.answers")  # noqa: S108
MODULES = (
    "runner.cli.support.characterize",
    "runner.cli.uopscope",
    "runner.host.kmod.selftest",
    "tests.vm.pmu.simulate",
)
"""What the programs need."""


def main() -> None:
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()
    while REQUESTS.read_text():
        child = os.fork()
        if not child:
            run()
        _, status = os.waitpid(child, 0)
        ANSWERS.write_text(f"{os.waitstatus_to_exitcode(status) % 256}\n")


def run() -> None:
    """Become the program that was asked for: its output, environment and arguments."""
    shell, option, module, *arguments = REQUEST.read_text().splitlines()
    for number in (1, 2):
        os.dup2(os.open(f"/proc/{shell}/fd/{number}", os.O_WRONLY | os.O_APPEND), number)
    os.environ.clear()
    for line in filter(None, ENVIRONMENT.read_text().split("\0")):
        name, _, value = line.partition("=")
        os.environ[name] = value
    assert option == "-m"
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
