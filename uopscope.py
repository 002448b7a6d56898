"""uopscope from Python: a few functions over the packages beside this file.

>>> import uopscope
>>> uopscope.encode("add rax, rbx").hex(" ")
'48 01 d8'
>>> uopscope.characterize("POPCNT (R64, R64)", backend="sim", arch="HSW")
Instruction        µops  Ports  TP unrolled  TP loop  TP ports  Latency
POPCNT (R64, R64)     1  1*p1          1.00     1.00      1.00  2→1 3; 2→flags 3
HSW: simulated HSW (a model, not a CPU), backend sim

Every error is an `Error`. Its text is the message that the command prints. Importing this module loads nothing else of
uopscope: each function loads what it needs.
"""

# ruff: noqa: PLC0415 - each function loads what it needs, so that importing the module is quick

from __future__ import annotations

from typing import TYPE_CHECKING

from xed_convert.errors import UopscopeError as Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike
    from typing import Unpack

    from analysis.prediction import Prediction
    from results.exports.tidy import Tables
    from results.rows import Rows
    from runner.python.characterized import Characterizations
    from runner.python.measured import MeasuredCode
    from runner.python.options import MeasureOptions

__all__ = ["Error", "analyze", "catalogue", "characterize", "decode", "encode", "encodings", "load", "measure", "sweep"]


def analyze(
    asm: str = "",
    *,
    code: bytes = b"",
    arch: str = "",
    data: str | PathLike[str] | None = None,
    runs: str = "auto",
    mode: str = "simulation",
) -> Prediction:
    """Predict how many core cycles an iteration of code takes, and what limits it.

    >>> found = analyze("imul rax, rbx; imul rax, rcx", arch="SKL")
    >>> found.cycles, found.limits
    (6.0, ['dependencies'])

    Args:
        asm: text in Intel or AT&T syntax. If it has marks as for OSACA, only the code between them counts.
        code: machine code, instead of text.
        arch: a microarchitecture, such as "SKL" (none: the only one of the file, or the CPU at hand).
        data: an instructions.xml or a campaign's file with its measurements; else what is shipped counts.
        runs: "loop", "unrolled", or "auto": as a loop if the code ends with a jump back.
        mode: "simulation", or "bounds": the largest bound of a single component.

    Raises:
        Error: there is no code, it cannot be read, or nothing is known of the machine.
    """
    from pathlib import Path

    from analysis.bounds.components import Running
    from analysis.prediction import PredictionMode
    from runner.own_code.analyzing.analyzed import of_bytes, of_text, tools_for

    if bool(asm) == bool(code):
        raise Error(
            "text or bytes are needed, one of the two", hint='for example: analyze("imul rax, rbx", arch="SKL")'
        )
    if runs not in [one.value for one in Running]:
        raise Error(f"runs={runs!r}: not one of {', '.join(one.value for one in Running)}")
    if mode not in [one.value for one in PredictionMode]:
        raise Error(f"mode={mode!r}: not one of {', '.join(one.value for one in PredictionMode)}")
    tools = tools_for(arch, None if data is None else Path(data))
    return (of_text(asm) if asm else of_bytes(code)).predict(tools, Running(runs), PredictionMode(mode))


def measure(
    asm: str = "",
    *,
    code: bytes = b"",
    init: str = "",
    late_init: str = "",
    one_time_init: str = "",
    **options: Unpack[MeasureOptions],
) -> MeasuredCode:
    """Measure any code: core cycles per copy, and whatever else the backend counts.

    >>> found = measure("imul rax, rbx", backend="sim", arch="SKL")
    >>> found.cycles
    3.0
    >>> found.rows.where(mode="loop", counter="p1")["value"]
    [1.0]
    >>> found = measure("imul rax, rbx", unroll=10, repeat=3, aggregate="min", backend="sim", arch="SKL")
    >>> found.cycles, len(found.samples["core_cycles"])
    (3.0, 3)

    Args:
        asm: the code as text, "@FILE" with text, "raw:FILE" with machine code, or "object:FILE:SYMBOL".
        code: machine code, instead of text.
        init: code as above that runs before every measurement.
        late_init: code that runs after the counters are read, once.
        one_time_init: code that runs before the first measurement only.
        options: see `MeasureOptions`.

    Raises:
        Error: the code cannot be read or measured, or the backend cannot be used here. Code that faults or hangs is
            no error: `ok` is false then, and `problems` say why.
    """
    from contextlib import closing

    from runner.own_code.measure import benchmark_of
    from runner.own_code.measure import measure as measure_request
    from runner.python.measured import MeasuredCode
    from runner.python.options import opened, template_of

    if bool(asm) == bool(code):
        raise Error("one source of code is needed: asm or code", hint='for example: measure("imul rax, rbx")')
    request = template_of(asm or f"hex:{code.hex()}", init, late_init, one_time_init, options).request()
    benchmark_of(request)  # what is wrong with it is said before a backend is looked for
    with closing(opened(options)) as backend:
        return MeasuredCode(measure_request(request, backend))


def sweep(
    asm: str,
    parameters: Mapping[str, Iterable[int]],
    *,
    init: str = "",
    late_init: str = "",
    one_time_init: str = "",
    **options: Unpack[MeasureOptions],
) -> Rows:
    """Measure code for every combination of its parameters, which stand as {N} or $N in it; return a row for each.

    >>> found = sweep(".rept {N}; imul rax, rbx; .endr", {"N": range(1, 4)}, backend="sim", arch="SKL")
    >>> found["N"], found["core_cycles_unrolled"]
    ([1, 2, 3], [3.0, 6.0, 9.0])

    A combination that cannot be assembled or measured has a `reason`. Parameters named offset, unroll or loop set that
    option. The other arguments are those of `measure`.

    Raises:
        Error: nothing depends on a parameter, none of the combinations is code, or the backend cannot be used here.
    """
    from contextlib import closing

    from runner.own_code.sweep import Parameter, points, rows_of
    from runner.own_code.sweep import sweep as sweep_template
    from runner.python.options import opened, template_of

    template = template_of(asm, init, late_init, one_time_init, options)
    wanted = points(template, [Parameter(name, tuple(values)) for name, values in parameters.items()])
    with closing(opened(options)) as backend:
        return rows_of((row for _, row in sweep_template(template, wanted, backend)), tuple(parameters))


def encode(text: str) -> bytes:
    """Return the bytes of assembly text in Intel syntax; semicolons part statements, `name:` is a label.

    >>> encode("again: dec rcx; jne again").hex(" ")
    '48 ff c9 75 fb'

    Raises:
        Error: a statement cannot be read or encoded; the message names it.
    """
    from xed_convert.assembly.assembler import assemble

    return assemble(text)


def encodings(text: str) -> Rows:
    """Return a row for every encoding of an instruction, the shortest first.

    Of several instructions, there is a row for the chosen encoding of each.

    >>> encodings("add rax, 5")["code"][:3]
    ['48 83 c0 05', '48 05 05 00 00 00', '48 81 c0 05 00 00 00']

    Raises:
        Error: a statement cannot be read or encoded; the message names it.
    """
    from runner.python.instructions import code_rows
    from xed_convert.assembly.assembler import shipped_assembler

    return code_rows((one.data, one) for one in shipped_assembler().encodings(text))


def decode(code: bytes | str) -> Rows:
    """Return a row per instruction of machine code; bytes may be given as hexadecimal text.

    >>> decode("48ffc9 480fafc3")
    code         text           string           iform           key
    48 ff c9     DEC RCX        DEC (R64)        DEC_GPRv_FFr1   DEC_GPRv_FFr1|0|0|3|0|0|0|0|0|0|0
    48 0f af c3  IMUL RAX, RBX  IMUL (R64, R64)  IMUL_GPRv_GPRv  IMUL_GPRv_GPRv|0|0|3|0|0|0|0|0|0|0

    Raises:
        Error: bytes are not an instruction of the catalogue; the message names the offset.
    """
    from runner.python.instructions import code_rows
    from xed_convert.assembly.assembler import shipped_assembler
    from xed_convert.encoding.decoder import bytes_of

    data = bytes_of(code) if isinstance(code, str) else bytes(code)
    return code_rows(shipped_assembler().decoder.decode_all(data))


def catalogue(*patterns: str, cpu: str = "") -> Rows:
    """Return a row per instruction variant: all, or those that the patterns mean and the CPU has.

    >>> catalogue("ADC_GPRv_GPRv_11")["string"]
    ['ADC_11 (R16, R16)', 'ADC_11 (R32, R32)', 'ADC_11 (R64, R64)']
    >>> len(catalogue(cpu="SKL")) < len(catalogue())
    True

    Args:
        patterns: iforms, their stems, strings, iclasses, or globs of these.
        cpu: "native", or a name that `uopscope catalogue list --chips` lists.

    Raises:
        Error: a pattern matches nothing, or the CPU is unknown; the hint names what is near.
    """
    from runner.host.isa_sets import test_of
    from runner.python.instructions import variant_rows
    from xed_convert.catalogue.catalogue import Catalogue

    known = Catalogue.load()
    chosen = {one.key: one for pattern in patterns for one in known.find(pattern)}.values() if patterns else known
    has = test_of(cpu)
    return variant_rows(one for one in chosen if has(one))


def characterize(
    *patterns: str,
    backend: str = "auto",
    arch: str | None = None,
    cpu: int | None = None,
    model: str | PathLike[str] | None = None,
    db: str | PathLike[str] | None = None,
    ports_by_time: bool = False,
) -> Characterizations:
    """Measure latency per operand pair, throughput and port usage, as the command `characterize` does.

    >>> found = characterize("IMUL_GPRv_GPRv", backend="sim", arch="SKL")
    >>> found["IMUL (R64, R64)"].ports
    '1*p1'
    >>> found.latencies.where(string="IMUL (R64, R64)", pair="1→1")["cycles"]
    [3]

    Args:
        patterns: iforms, their stems, strings, iclasses, or globs of these.
        backend: how to measure; "auto" takes the best for the real CPU, "sim" simulates `arch` or `model`.
        arch: a microarchitecture, such as "SKL".
        cpu: the logical CPU to measure on.
        model: an instructions.xml, or a campaign's file, whose machine is simulated.
        db: a campaign's file, which keeps raw samples and conclusions; what it has is not measured again.
        ports_by_time: infer ports by time alone where nothing counts them, after about a minute of preparation.

    Raises:
        Error: a pattern matches nothing, the backend cannot be used here, or the file is of another machine.
    """
    from pathlib import Path

    from inference.characterizer import Characterizer
    from runner.backends.registry import MachineChoice
    from runner.campaigns.campaign import Campaign
    from runner.campaigns.start import on_machine
    from runner.python.characterized import Characterizations, Characterized
    from xed_convert.catalogue.catalogue import Catalogue

    if not patterns:
        raise Error("no instruction is named", hint='for example: characterize("ADC")')
    known = Catalogue.load()
    variants = list({one.key: one for pattern in patterns for one in known.find(pattern)}.values())
    machine = MachineChoice(backend, arch, cpu, None if model is None else Path(model))
    with on_machine(known, variants, machine, None if db is None else Path(db)) as setup:
        method = Characterizer(known, setup.info.capabilities, by_time=ports_by_time)
        for _ in Campaign(setup.store, setup.measurer, method, setup.lacks).run(
            variants, on_change=lambda _tally: None
        ):
            pass
        return Characterizations(tuple(map(Characterized, setup.conclusions(), variants)))


def load(path: str | PathLike[str] | None = None) -> Tables:
    """Load results as three tables: `variants`, `latencies` and `ports`.

    >>> shipped = load()
    >>> shipped.variants.where(string="IMUL (R64, R64)", architecture="ZEN5")["TP_loop"]
    [0.33]

    Args:
        path: an instructions.xml (plain, .gz, .xz) or a campaign's file; without it, the shipped results.

    Raises:
        Error: the file cannot be read.
    """
    from pathlib import Path

    from results.exports import tidy
    from results.shipped import shipped_database

    return tidy.load(shipped_database() if path is None else Path(path))
