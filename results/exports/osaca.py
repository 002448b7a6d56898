"""Machine files for OSACA (https://github.com/RRZE-HPC/OSACA), in the form that its version 0.7 loads.

OSACA knows one latency and one port pressure per instruction form, and does not tell general-purpose registers of
different widths apart: of several variants with the same operand classes the widest is written. Operands stand in the
order of AT&T syntax, destination last. Masked variants and
those without a port usage are left out. A file in ~/.osaca/data with the name of an architecture replaces OSACA's own.
"""

from __future__ import annotations

import json
import re
from typing import IO, TYPE_CHECKING

from results.database.query import latency_cycles
from results.database.reader import DatabaseError
from results.model import PortUsage, port_order
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from results.database.reader import ArchitectureResult, Entry
    from xed_convert.model import InstructionVariant, Operand

LOAD, STORE = "MOV (R64, M64)", "MOV (M64, R64)"
"""The variants whose ports are those of a load and of a store."""

_VECTOR = re.compile(r"(MM|XMM|YMM|ZMM|K)\d+")
_ANY_ADDRESS = {"class": "memory", "base": "*", "offset": "*", "index": "*", "scale": "*"}


def write_osaca(entries: Iterable[Entry], architecture: str, file: IO[bytes]) -> int:
    """Write the machine file of one architecture as YAML and return how many instruction forms it has.

    Raises:
        DatabaseError: no variant of that architecture has a port usage, which OSACA cannot do without.
    """
    forms: dict[str, tuple[int, dict[str, object]]] = {}
    common: dict[str, ArchitectureResult] = {}
    for entry in entries:
        result = entry.results.get(architecture)
        if result is None or not _is_written(entry.variant, result):
            continue
        if entry.variant.string in (LOAD, STORE):
            common[entry.variant.string] = result
        _keep_widest(forms, entry.variant, result)
    if not forms:
        raise DatabaseError(
            f"{architecture}: no instruction has a port usage",
            hint="OSACA needs ports: export a campaign of a backend that counts them (kmod, sim).",
        )
    for line in _lines(architecture, common, [form for _, form in forms.values()]):
        file.write(f"{line}\n".encode())
    return len(forms)


def _is_written(variant: InstructionVariant, result: ArchitectureResult) -> bool:
    values = result.measurement or {}
    known = "ports" in values or values.get("uops") == "0"
    return known and variant.attributes.get("mask", "0") == "0" and "TP_unrolled" in values


def _keep_widest(
    forms: dict[str, tuple[int, dict[str, object]]], variant: InstructionVariant, result: ArchitectureResult
) -> None:
    written = [operand for operand in variant.operands if not operand.suppressed]
    operands = [_operand(operand) for operand in reversed(written)]
    if any(operand is None for operand in operands):
        return
    mnemonic = variant.asm.split()[-1]
    width = max((operand.width_bits or 0 for operand in written), default=0)
    place = json.dumps([mnemonic, operands])
    if place not in forms or width > forms[place][0]:
        forms[place] = width, _form(mnemonic, operands, result)


def _operand(operand: Operand) -> dict[str, object] | None:
    """Return an operand in OSACA's terms, or None if it has none for it."""
    if operand.kind is OperandKind.IMMEDIATE:
        return {"class": "immediate", "imd": "int"}
    if operand.kind in (OperandKind.MEMORY, OperandKind.AGEN):
        return dict(_ANY_ADDRESS) if not (operand.memory and operand.memory.vsib) else None
    if operand.kind is OperandKind.RELATIVE_BRANCH:
        return {"class": "identifier"}
    if operand.kind is not OperandKind.REGISTER or not operand.registers:
        return None
    match = _VECTOR.fullmatch(operand.registers[0])
    if match:
        return {"class": "register", "name": match[1].lower()}
    return {"class": "register", "name": "gpr"} if (operand.width_bits or 0) <= 64 else None


def _form(mnemonic: str, operands: list[dict[str, object] | None], result: ArchitectureResult) -> dict[str, object]:
    values = result.measurement or {}
    throughput = min(float(values[name]) for name in ("TP_unrolled", "TP_loop") if name in values)
    return {
        "name": mnemonic,
        "operands": operands,
        "latency": max((cycles for row in result.latencies for cycles in latency_cycles(row.values)), default=None),
        "throughput": throughput,
        "port_pressure": _pressure(values),
        "uops": int(values.get("uops", "0")),
    }


def _pressure(values: Mapping[str, str]) -> list[list[object]]:
    """Return `[[1, "06"], ...]`: cycles and the ports that share them; a list where they have longer names."""
    usage = PortUsage.parse(values.get("ports", ""))
    pressure = [(count, sorted(ports, key=port_order)) for ports, count in usage.uops.items()]
    return [[count, "".join(ports) if all(len(one) == 1 for one in ports) else ports] for count, ports in pressure]


def _lines(
    architecture: str, common: Mapping[str, ArchitectureResult], forms: list[dict[str, object]]
) -> Iterator[str]:
    """Yield the lines of the file; every value is JSON, which YAML contains."""
    load, store = (_pressure(common[name].measurement or {}) if name in common else [] for name in (LOAD, STORE))
    latency = _load_latency(common)
    head = {
        "osaca_version": "0.7.1",
        "micro_architecture": architecture,
        "arch_code": architecture,
        "isa": "x86",
        "ROB_size": None,
        "retired_uOps_per_cycle": None,
        "scheduler_size": None,
        "hidden_loads": False,
        "load_latency": dict.fromkeys(("gpr", "mm", "xmm", "ymm", "zmm"), latency),
        "load_throughput": [],
        "load_throughput_default": load,
        "store_throughput": [],
        "store_throughput_default": store,
        "store_to_load_forward_latency": 0.0,
        "ports": _ports(forms),
        "port_model_scheme": "",
    }
    yield "# Written by uopscope. Numbers that OSACA wants and that were not measured are left empty."
    yield from (f"{name}: {json.dumps(value)}" for name, value in head.items())
    yield "instruction_forms:"
    yield from (f"- {json.dumps(form)}" for form in forms)


def _load_latency(common: Mapping[str, ArchitectureResult]) -> float:
    rows = common[LOAD].latencies if LOAD in common else ()
    return max((cycles for row in rows for cycles in latency_cycles(row.values)), default=0.0)


def _ports(forms: list[dict[str, object]]) -> list[str]:
    used = {letter for form in forms for _, letters in form["port_pressure"] for letter in letters}  # type: ignore[attr-defined] # a list of pairs, see `_form`
    return sorted(used, key=port_order)
