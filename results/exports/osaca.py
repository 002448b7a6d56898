"""Machine files for OSACA (https://github.com/RRZE-HPC/OSACA), in the form that its version 0.7 loads.

OSACA knows one latency and one port pressure per instruction form. It looks forms up by the name in the code, and does
not tell general-purpose registers of different widths apart. So

- a form is written under every spelling of its name (`results.exports.mnemonics`);
- of several variants with the same operand classes, the likeliest is written (`_likelihood`);
- OSACA takes the first form that fits, and general registers fit more than their own kind: special forms stand first;
- a latency is written only if it is exact: an upper bound is no value, and the form has none then;
- it is the latency from registers and flags, since loops wait for these; if none is read, that from the address;
- if only some µops have known ports, the port pressure is that of those, and a comment counts such variants; if no
  port is known, there is no pressure, OSACA marks the instruction with `*`, and another comment counts such forms;
- operands stand in the order of AT&T syntax, destination last;
- for a load behind a store to the same place OSACA adds up the latencies of the store, of forwarding and of the load.
  Forwarding is what is left of the measured time from the stored register to the loaded one (`results.memory`).

Masked and locked variants, repeated ones (REP), and those with other registers (segment, control, x87, bounds) are
left out: OSACA has no forms for them. A file in ~/.osaca/data with the name of an architecture replaces OSACA's own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING

from results.database.cycles import exact_cycles, longest
from results.database.entries import is_model, known_ports
from results.database.reader import DatabaseError
from results.exports.mnemonics import spellings
from results.memory.model import Addressing, ForwardingOutcome, LineCrossing
from results.model import port_order
from xed_convert.model import OperandKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from results.database.reader import ArchitectureResult, Entry, LatencyRow
    from results.exports.exporters import ExportRequest
    from results.memory.model import MemoryReport
    from xed_convert.model import InstructionVariant, Operand

OPTION = "osaca"
HELP = "OSACA's machine file of one architecture."

LOAD, STORE = "MOV (R64, M64)", "MOV (M64, R64)"
"""The variants whose ports are those of a load and of a store."""

ENCODINGS = {"{load}", "{store}", "{vex}", "{evex}", "{disp32}"}
"""Words before a mnemonic that only choose an encoding. With others, OSACA has no form for it."""

_VECTOR = re.compile(r"(MM|XMM|YMM|ZMM|K)\d+")
_GENERAL = re.compile(r"[ER]?([A-D]X|[SD]I|[SB]P)|[A-D][LH]|[SB]PL|[SD]IL|R\d+[DWB]?")
UNLIKELY = ("high8", "roundc", "sae")
"""Attributes of variants with AH to DH, and with rounding or no exceptions in the code itself."""

_FROM_MEMORY = re.compile(r"(min_|max_)?cycles_(addr|mem)")
_ANY_ADDRESS = {"class": "memory", "base": "*", "offset": "*", "index": "*", "scale": "*"}


def export(request: ExportRequest, file: IO[bytes]) -> str:
    """Write the machine file of the one architecture.

    Raises:
        ExportError: there are several architectures.
        DatabaseError: no variant has a port usage and a throughput.
    """
    name = request.of_one_architecture()
    return f"{write_osaca(request.entries, name, file, request.memory_of(name))} instruction forms"


def write_osaca(
    entries: Iterable[Entry], architecture: str, file: IO[bytes], memory: MemoryReport | None = None
) -> int:
    """Write the machine file of one architecture as YAML and return how many instruction forms it has.

    `memory` is what was measured of its memory.

    Raises:
        DatabaseError: no variant of that architecture has a port usage and a throughput, which OSACA needs.
    """
    machine = _Machine(architecture, _Forwarding.of(memory))
    for entry in entries:
        result = entry.results.get(architecture)
        if result is not None and _has_form(entry.variant, result):
            machine.add(entry.variant, result)
    if not machine.has_ports:
        raise DatabaseError(
            f"{architecture}: no instruction has both a port usage and a throughput",
            hint="OSACA needs ports: export a campaign that has them: counted (kmod, sim), or with --ports-by-time.",
        )
    for line in machine.lines():
        file.write(f"{line}\n".encode())
    return len(machine.forms)


def _has_form(variant: InstructionVariant, result: ArchitectureResult) -> bool:
    """Whether OSACA has a form for a variant, and its throughput was measured."""
    values = result.measurement or {}
    prefixes = set(variant.asm.split()[:-1])
    is_timed = "TP_unrolled" in values or "TP_loop" in values
    return is_timed and variant.attributes.get("mask", "0") == "0" and prefixes <= ENCODINGS


Rank = tuple[int, ...]
"""Orders variants for a form. The greatest is written."""


def _likelihood(variant: InstructionVariant, written: Sequence[Operand], *, is_own_name: bool) -> Rank:
    """Return how likely code means this variant: by name, prefix, fixed operands, width, and narrow immediates.

    Registers AH to DH, and rounding or no exceptions in the code itself, are less likely than what OSACA cannot tell
    from them.
    """
    prefixes = variant.asm.split()[:-1]
    is_odd = any(variant.attributes.get(name, "0") not in ("", "0") for name in UNLIKELY)
    immediates = [operand for operand in written if operand.kind is OperandKind.IMMEDIATE]
    others = [operand for operand in written if operand.kind is not OperandKind.IMMEDIATE]
    is_fixed = [bool(operand.value) for operand in immediates] + [len(operand.registers) == 1 for operand in others]
    widths = [operand.width_bits or 0 for operand in others]
    narrow = -sum(operand.width_bits or 0 for operand in immediates)
    is_plain = "{evex}" not in prefixes, not prefixes, not is_odd
    return is_own_name, *is_plain, -sum(is_fixed), *_widest_first(widths), narrow


def _widest_first(widths: Sequence[int]) -> tuple[int, int]:
    """Return the greatest width and the sum: memory of a whole vector is likelier than a broadcast."""
    return max(widths, default=0), sum(widths)


@dataclass(frozen=True, slots=True)
class _Forwarding:
    """The cycles from a stored 64-bit register to the loaded one, at the same address inside a line.

    `is_elsewhere`: another base register is meant, since a load whose address is written alike is renamed.
    """

    cycles: Fraction
    is_elsewhere: bool

    @classmethod
    def of(cls, memory: MemoryReport | None) -> _Forwarding | None:
        """Return the first case that goes through the store buffer, None if there is none."""
        if memory is None or memory.forwarding is None:
            return None
        for addressing in Addressing:
            row = memory.forwarding.row("r64", "r64", LineCrossing.LINE, addressing)
            cycles, outcome = (row.at(0) if row else None) or (None, ForwardingOutcome.UNKNOWN)
            if cycles is not None and outcome is ForwardingOutcome.FORWARDED:
                return cls(cycles, addressing is not Addressing.SAME)
        return None

    @staticmethod
    def comment(found: _Forwarding | None) -> Iterator[str]:
        """Yield what a reader of the file should know."""
        if found is None:
            yield "# Store forwarding was not measured: store_to_load_forward_latency is left out, and OSACA adds 0."
            return
        yield f"# From a stored 64-bit register to the loaded one it takes {float(found.cycles):.2f} cycles."
        yield "# store_to_load_forward_latency is what OSACA has to add to the latencies of store and load."
        if found.is_elsewhere:
            yield "# Loads of general registers whose address is written as the store's are faster: they are renamed."


@dataclass(slots=True)
class _Machine:
    """What the file says: `forms` by name and operands, and the variants whose ports are known in part.

    `forwarding` is None if nothing was forwarded, or nothing measured.
    """

    architecture: str
    forwarding: _Forwarding | None = None
    forms: dict[str, tuple[Rank, dict[str, object]]] = field(default_factory=dict)
    common: dict[str, ArchitectureResult] = field(default_factory=dict)
    in_part: set[str] = field(default_factory=set)
    is_model: bool = False
    is_by_time: bool = False

    def add(self, variant: InstructionVariant, result: ArchitectureResult) -> None:
        """Take in a variant under all of its names."""
        values = result.measurement or {}
        self.is_model = self.is_model or is_model(values)
        self.is_by_time = self.is_by_time or not values.keys().isdisjoint({"ports_by_time", "some_ports_by_time"})
        if "some_ports" in values and "ports" not in values:
            self.in_part.add(variant.string)
        if variant.string in (LOAD, STORE):
            self.common[variant.string] = result
        mnemonic = variant.asm.split()[-1]
        written = [operand for operand in variant.operands if not operand.suppressed]
        for name in spellings(mnemonic, variant.string.partition("(")[2].rstrip(")")):
            kept = written[:-1] if name.without_immediate else written
            operands = [_operand(operand, variant) for operand in reversed(kept)]
            if None not in operands:
                rank = _likelihood(variant, written, is_own_name=name.mnemonic == mnemonic)
                self._keep(rank, _form(name.mnemonic, operands, result))

    def _keep(self, rank: Rank, form: dict[str, object]) -> None:
        place = json.dumps([form["name"], form["operands"]])
        if place not in self.forms or rank > self.forms[place][0]:
            self.forms[place] = rank, form

    @property
    def has_ports(self) -> bool:
        """Whether any form has a port, or is known to need none."""
        return any(form["port_pressure"] or form["uops"] == 0 for _, form in self.forms.values())

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file; every value is JSON, which YAML contains."""
        forms = sorted((form for _, form in self.forms.values()), key=_generality)
        without_ports = sum(1 for form in forms if not form["port_pressure"] and form["uops"] != 0)
        name = f"{self.architecture} (a simulated model, not a CPU)" if self.is_model else self.architecture
        yield f"# {name}, written by uopscope. Numbers that OSACA wants and that were not measured are left empty."
        latency = _load_latency(self.common)
        if latency is None:
            yield "# The latency of loads is not known: 0 stands for it, since OSACA adds it to those of instructions."
        if self.is_by_time:
            yield "# Ports were inferred by time alone. Names such as r0 and r1 are no published ones."
            yield "# Counts are cycles in which a port is occupied."
        if self.in_part:
            yield f"# Of {len(self.in_part)} variants only some µops have known ports. Their pressure is too low."
        if without_ports:
            yield f"# {without_ports} forms have no known port. They put no pressure on any. OSACA marks them with *."
        yield from _Forwarding.comment(self.forwarding)
        head = self._head(name, latency or 0.0, forms)
        yield from (f"{key}: {json.dumps(value)}" for key, value in head.items())
        yield "instruction_forms:"
        yield from (f"- {json.dumps(form)}" for form in forms)

    def _forwarding_latency(self, load_latency: float) -> dict[str, float]:
        """Return what forwarding adds to the latencies of store and load, as a member of the file; {} if not known."""
        if self.forwarding is None:
            return {}
        store = _latency(self.common[STORE].latencies) if STORE in self.common else None
        added = max(0.0, round(float(self.forwarding.cycles) - load_latency - (store or 0.0), 2))
        return {"store_to_load_forward_latency": added}

    def _head(self, name: str, load_latency: float, forms: list[dict[str, object]]) -> dict[str, object]:
        return {
            "osaca_version": "0.7.1",
            "micro_architecture": name,
            "arch_code": self.architecture,
            "isa": "x86",
            "ROB_size": None,
            "retired_uOps_per_cycle": None,
            "scheduler_size": None,
            "hidden_loads": False,
            "load_latency": dict.fromkeys(("gpr", "mm", "xmm", "ymm", "zmm"), load_latency),
            "load_throughput": [],
            "load_throughput_default": self._ports_of(LOAD),
            "store_throughput": [],
            "store_throughput_default": self._ports_of(STORE),
            **self._forwarding_latency(load_latency),
            "ports": _ports(forms),
            "port_model_scheme": "",
        }

    def _ports_of(self, string: str) -> list[list[object]]:
        return _pressure(self.common[string].measurement or {}) if string in self.common else []


def _operand(operand: Operand, variant: InstructionVariant) -> dict[str, object] | None:
    """Return an operand of a variant in OSACA's terms, or None if it has none for it."""
    if operand.kind is OperandKind.IMMEDIATE:
        return {"class": "immediate", "imd": "int"}
    if operand.kind is OperandKind.AGEN:
        return _address(variant.attributes.get("agen", "").split("_"))
    if operand.kind is OperandKind.MEMORY:
        return dict(_ANY_ADDRESS) if not (operand.memory and operand.memory.vsib) else None
    if operand.kind is OperandKind.RELATIVE_BRANCH:
        return {"class": "identifier"}
    return _register(operand) if operand.kind is OperandKind.REGISTER and operand.registers else None


def _register(operand: Operand) -> dict[str, object] | None:
    """Return a register operand in OSACA's terms, or None if it has none for it."""
    match = _VECTOR.fullmatch(operand.registers[0])
    if match:
        return {"class": "register", "name": match[1].lower()}
    return {"class": "register", "name": "gpr"} if _GENERAL.fullmatch(operand.registers[0]) else None


def _address(parts: Sequence[str]) -> dict[str, object]:
    """Return what OSACA compares an address of LEA with: `B` base, `R` RIP, `I` index, `IS` scaled index, `D...`."""
    base = "gpr" if "B" in parts else "rip" if "R" in parts else None
    index = "gpr" if {"I", "IS"} & set(parts) else None
    offset = "*" if any(part.startswith("D") for part in parts) else None
    return {"class": "memory", "base": base, "offset": offset, "index": index, "scale": 8 if "IS" in parts else 1}


def _generality(form: dict[str, object]) -> int:
    """Return how many parts of a form's operands fit other kinds, too."""
    return json.dumps(form["operands"]).count('"*"') + json.dumps(form["operands"]).count('"gpr"')


def _form(mnemonic: str, operands: list[dict[str, object] | None], result: ArchitectureResult) -> dict[str, object]:
    values = result.measurement or {}
    return {
        "name": mnemonic,
        "operands": operands,
        "latency": _latency(result.latencies),
        "throughput": min(float(values[name]) for name in ("TP_unrolled", "TP_loop") if name in values),
        "port_pressure": _pressure(values),
        "uops": int(values["uops"]) if "uops" in values else None,
    }


def _pressure(values: Mapping[str, str]) -> list[list[object]]:
    """Return `[[1, "06"], ...]`: cycles and the ports that share them; a list where they have longer names."""
    usage = known_ports(values)
    pressure = [(count, sorted(ports, key=port_order)) for ports, count in usage.uops.items()]
    return [[count, "".join(ports) if all(len(one) == 1 for one in ports) else ports] for count, ports in pressure]


def _latency(rows: Sequence[LatencyRow]) -> float | None:
    """Return the latency from registers in cycles, or from the address if none is read; None: not exactly known."""
    registers = [
        replace(row, values={name: text for name, text in row.values.items() if not _FROM_MEMORY.match(name)})
        for row in rows
    ]
    return longest(registers if any("cycles" in name for row in registers for name in row.values) else rows)


def _load_latency(common: Mapping[str, ArchitectureResult]) -> float | None:
    """Return the latency from address to register of a load (None: not known exactly)."""
    rows = common[LOAD].latencies if LOAD in common else ()
    address = [{name: text for name, text in row.values.items() if "cycles_addr" in name} for row in rows]
    return max((cycles for values in address for cycles in exact_cycles(values)), default=longest(rows))


def _ports(forms: list[dict[str, object]]) -> list[str]:
    used = {letter for form in forms for _, letters in form["port_pressure"] for letter in letters}  # type: ignore[attr-defined] # a list of pairs, see `_form`
    return sorted(used, key=port_order)
