"""Whether Linux can keep the other threads of a core idle for a process of an ordinary user.

With core scheduling, only tasks that share a cookie run on a core at the same time. So a process with a cookie of its
own has the core for itself: while it runs, the other threads are idle. Source: Linux (5.14 and later),
Documentation/admin-guide/hw-vuln/core-scheduling.rst. `runner.host.native.server` asks for such a cookie.
"""

from __future__ import annotations

import ctypes
import errno
import os

from runner.backend import BackendError
from runner.host.cpu import siblings

PR_SCHED_CORE, PR_SCHED_CORE_GET = 62, 0
SMT_HINT = "echo off | sudo tee /sys/devices/system/cpu/smt/control switches all siblings off (on: back again)"


def must_be_asked_for(cpu: int) -> bool:
    """Return whether a CPU has siblings that Linux has to keep idle; without any there is nothing to do.

    Raises:
        BackendError: it has, and the kernel cannot.
    """
    others = siblings(cpu)
    if not others:
        return False
    number = _refusal()
    if number:
        names = ", ".join(map(str, others))
        reason = "it has no core scheduling" if number == errno.EINVAL else os.strerror(number)
        raise BackendError(f"this kernel cannot keep CPU {names} idle, which shares the core: {reason}", hint=SMT_HINT)
    return True


def _refusal() -> int:
    """Ask for this process's cookie, which changes nothing; return the error number (0: core scheduling works)."""
    libc = ctypes.CDLL(None, use_errno=True)
    cookie = ctypes.c_uint64()
    return ctypes.get_errno() if libc.prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, 0, ctypes.byref(cookie)) else 0
