"""Starts a command of a checkout, as the scripts `characterize` and `uopscope` do: `python -S _start.py MODULE ...`.

Without -S, Python spends its first 50 ms on finding packages; Ctrl-C shows a traceback then. Here it is caught first.
"""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

import runpy
import site
import sys

site.main()
sys.argv[:2] = sys.argv[1:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
