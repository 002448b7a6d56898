"""The command line: one module per command of `uopscope`, imported only when it is used.

A module here whose name has no leading underscore is a command: it holds a typer application `app`, and the first line
of its docstring is the command's help. `runner.cli._guard` turns errors into messages and exit codes.
"""

from runner.cli import _stop

_stop.quietly_until_ready()
