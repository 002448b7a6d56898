"""The command line: one module per command of `uopscope`, imported only when it is used.

Each module here is a command: it holds a typer application `app`, and the first line of its docstring is the command's
help. Two rooms belong to all of them: `process` (start, signals, exit codes) and `support` (options, progress, output).
The room `database` has the commands of `db`.
"""

from runner.cli.process import stop

stop.quietly_until_ready()
