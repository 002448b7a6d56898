"""Exit codes, and messages instead of tracebacks.

| code | meaning |
|---|---|
| 0 | done |
| 1 | a fault of uopscope itself; or a command that checks or compares found something |
| 2 | the input is wrong: an unknown instruction, option, file |
| 3 | this machine cannot do it: a backend, a device, a file that cannot be written |
| 4 | a campaign is done, but some variants failed |
| 130 | stopped by Ctrl-C (143: by SIGTERM), after showing the results so far |
| 141 | the reader of the output has gone (as other programs end by SIGPIPE) |
"""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from runner.backend import BackendError
from runner.cli.process import stop, streams
from xed_convert.errors import UopscopeError
from xed_convert.files import OutputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    import typer

TRACEBACK_VARIABLE = "UOPSCOPE_TRACEBACK"
"""The environment variable that asks for Python's own traceback instead of a message."""


class ExitCode(IntEnum):
    """What the process tells its caller."""

    DONE = 0
    FAULT = 1
    BAD_INPUT = 2
    UNUSABLE = 3
    SOME_FAILED = 4
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


def run(app: typer.Typer, arguments: Sequence[str] | None = None, *, program: str) -> NoReturn:
    """Run the application with these arguments (None: those of the process), then exit with its code."""
    stop.raise_when_stopped()
    streams.prepare()
    code = guarded(app, list(sys.argv[1:] if arguments is None else arguments), program)
    if not _is_written(sys.stdout) and code == ExitCode.DONE:
        code = ExitCode.PIPE_CLOSED
    if code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):
        sys.stderr.flush()
        os._exit(code)  # everything is closed; taking a large heap apart would take another second
    sys.exit(code)


def guarded(app: typer.Typer, arguments: list[str], program: str) -> int:
    """Run the application; return its exit code, with every error turned into a message on standard error."""
    if os.environ.get(TRACEBACK_VARIABLE):
        result = app(args=arguments, prog_name=program, standalone_mode=False)
        return result if isinstance(result, int) else ExitCode.DONE
    output = sys.stdout
    try:
        _refuse_empty(arguments)
        _refuse_overwriting(arguments, program)
        _refuse_split(arguments)
        app(args=arguments, prog_name=program)
    except SystemExit as end:
        if _is_of_closed_pipe(end):
            sys.stdout = output  # typer wraps it
            return _report(BrokenPipeError())
        return end.code if isinstance(end.code, int) else ExitCode.DONE if end.code is None else ExitCode.FAULT
    except BaseException as error:  # noqa: BLE001 - the last guard: whatever it is, the user gets a sentence
        return _report(error)
    return ExitCode.DONE


def say(text: str, code: ExitCode, *, is_error: bool = False) -> NoReturn:
    """Print a text, then exit with a code, or with that of a closed pipe if the reader has gone."""
    stream = sys.stderr if is_error else sys.stdout
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        code = ExitCode(_report(error))
        _drop(stream)
    sys.exit(code)


def _is_of_closed_pipe(end: BaseException | None) -> bool:
    """Whether a closed pipe made the program end: typer and rich end it with a code of their own."""
    while end is not None and not isinstance(end, BrokenPipeError):
        end = end.__context__
    return end is not None


class UsageError(UopscopeError):
    """The arguments cannot be what was meant."""


MAY_BE_EMPTY = {"--init", "--arch"}
"""Options for which an empty text means: nothing, or all."""


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse "" where a value is needed (`--db "$FILE"` without FILE): as a path it would be the current folder.

    Raises:
        UsageError: names the option.
    """
    for before, word in pairwise(["", *arguments]):
        option, equals, value = word.partition("=")
        if equals and not value and option.startswith("--") and option not in MAY_BE_EMPTY:
            raise UsageError(f"{option}: the value is empty", hint="is a variable of the shell unset?")
        if not word and before not in MAY_BE_EMPTY:
            what = f"{before}: the value is empty" if before.startswith("-") else "an argument is empty"
            raise UsageError(what, hint="is a variable of the shell unset?")


CODE = {"--asm", "--bytes", "--init", "--late-init", "--one-time-init"}
"""Options whose value is code, in which there may be spaces. No command takes an argument beside them."""


def _refuse_split(arguments: Sequence[str]) -> None:
    """Refuse code that the shell has split into words: all but the first would be arguments.

    Raises:
        UsageError: names the option, and has the value in quotes.
    """
    for place, option in enumerate(arguments):
        value = list(takewhile(lambda word: not word.startswith("-"), arguments[place + 1 :]))
        if option in CODE and len(value) > 1 and not any(" " in word for word in value):
            raise UsageError(f"{option} takes one value, not {len(value)}", hint=f'{option} "{" ".join(value)}"')


OUTPUTS = {
    *("-o", "--output", "--xml", "--json", "--csv", "--html", "--svg", "--dot", "--plot"),
    *("--osaca", "--llvm-exegesis", "--parquet"),
}
"""Options of files that are written."""

CAMPAIGN = "--db"
"""Where `characterize` writes to; elsewhere it is read."""


def _refuse_overwriting(arguments: Sequence[str], program: str) -> None:
    """Refuse to write two outputs to one place, or an output over an input (`db build a.sqlite -o a.sqlite`).

    Raises:
        UsageError: names the file.
    """
    outputs = OUTPUTS | {CAMPAIGN} if program == "characterize" else OUTPUTS
    words = [(before, *word.partition("=")) for before, word in pairwise(["", *arguments])]
    named = [(first, rest) if equals else (before, first) for before, first, equals, rest in words]
    written: dict[str, str] = {}
    for option, target in named:
        place = _place(target)
        if option not in outputs or _is_device(place) or written.setdefault(place, option) == option:
            continue
        if target == "-":
            raise UsageError("only one form can go to standard output")
        raise UsageError(f"{option} {target}: {written[place]} writes the same file", hint="name another file")
    for option, source in named:
        if option not in outputs and _may_be_input(option, source, program) and (output := written.get(_place(source))):
            raise UsageError(f"{output} {source}: it is an input, too, and would be lost", hint="name another file")


NO_FILES = {
    *("--arch", "--asm", "--backend", "--extension", "--function", "--init", "--instr", "--isa-set", "--late-init"),
    *("--one-time-init", "--symbol"),
}
"""Options whose values are names or code: a file that is called like one is another thing."""


def _may_be_input(option: str, source: str, program: str) -> bool:
    """Whether a word names a file that is read: `prog` may be one, but not a pattern of `characterize`."""
    if option in NO_FILES:
        return False
    may_be_file = program != "characterize" or option == "--model"
    return "." in source or (may_be_file and os.path.isfile(_place(source)))  # noqa: PTH113 - any length is a word


def _place(name: str) -> str:
    """Return the path that a name stands for; `-`, and what no file can be called, stand for themselves."""
    return name if name == "-" or "\0" in name else os.path.realpath(name)


def _is_device(place: str) -> bool:
    """Whether a path is no file: `/dev/null` may be written to any number of times."""
    return Path(place).exists() and not Path(place).is_file()


def _report(error: BaseException) -> int:
    """Say in a sentence what happened; return the exit code."""
    if isinstance(error, BrokenPipeError):
        for stream in (sys.stdout, sys.stderr):
            _is_written(stream)
        return ExitCode.PIPE_CLOSED
    message, code = _explained(error)
    try:
        print(f"error: {message}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        _drop(sys.stderr)
    return code


def _explained(error: BaseException) -> tuple[str, int]:
    match error:
        case stop.Stopped():
            explained = str(error), error.take()
        case KeyboardInterrupt():
            explained = "stopped by Ctrl-C", ExitCode.INTERRUPTED
        case UopscopeError():
            unusable = isinstance(error, (BackendError, OutputError))
            default = ExitCode.UNUSABLE if unusable else ExitCode.BAD_INPUT
            explained = str(error), getattr(error, "exit_code", default)
        case OSError():
            explained = f"{error.filename or 'input or output'}: {error.strerror or error}", ExitCode.UNUSABLE
        case MemoryError():
            explained = "out of memory", ExitCode.UNUSABLE
        case _:
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            hint = f"{TRACEBACK_VARIABLE}=1 shows where"
            explained = f"a fault of uopscope itself: {what}\n  {hint}", ExitCode.FAULT
    return explained


def _is_written(stream: TextIO) -> bool:
    """Write what an output still holds, and return whether that is done; else drop the output."""
    try:
        stream.flush()
    except OSError:
        _drop(stream)
        return False
    return True


def _drop(stream: TextIO) -> None:
    """Point an output at nothing: its reader has gone, and Python flushes it on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
