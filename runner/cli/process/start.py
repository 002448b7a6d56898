"""Starts a command of a checkout, as the scripts `characterize` and `uopscope` do: `python -S start.py MODULE ...`.

Without -S, Python spends its first 50 ms on finding packages; Ctrl-C shows a traceback then. Here it is caught first.
"""

# Modules that are part of the interpreter: `os` and `signal` take milliseconds to load
import _signal  # type: ignore[import-not-found] # it is private, and has been there since Python 2
import posix

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, lambda *_: posix._exit(130))  # noqa: SLF001 - public as os._exit

import runpy
import site
import sys

site.main()
sys.argv[:2] = sys.argv[1:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
