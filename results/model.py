"""Measurements and conclusions: the types that generators, backends, inference and exports share.

Cycles stay `Fraction` until they are printed. Core cycles and reference (TSC) ticks are never both "cycles".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

PORT_LETTERS = "0123456789ABCDEFGHIJ"
"""One character per port, so that a port set can be written `p0156`; ports 10 and 11 are A and B."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where, with what and when something was measured; every result carries it.

    `cpu_signature` is family-model-stepping in hex ("6-3C-3"); `time` is UTC in ISO 8601; `options` are those that
    change what is measured; `caveats` are sentences for the reader. `is_model` is true for simulated machines and
    software models: their results are never called measurements of a CPU.
    """

    architecture: str
    cpu: str
    cpu_signature: str
    microcode: str
    kernel: str
    backend: str
    version: str
    time: str
    options: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    is_model: bool = False


class Status(StrEnum):
    """What became of one microbenchmark."""

    OK = "ok"
    FAULTED = "faulted"
    TIMED_OUT = "timed_out"
    UNCLEAN = "unclean"
    REFUSED = "refused"


class Series(NamedTuple):
    """The raw samples of one run: `samples[counter]` are the differences end - start, one integer per repetition.

    `copies` is how often the body stands in the code; `iterations` how often a loop around the copies runs (0: there
    is no loop).
    """

    copies: int
    iterations: int
    samples: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A microbenchmark's raw samples at two or more sizes, stored before anything is concluded from them."""

    status: Status
    series: tuple[Series, ...]
    detail: str = ""


class Bound(StrEnum):
    """Whether a latency is exact or only an upper bound."""

    EXACT = "exact"
    UPPER = "upper"


class LatencyPart(StrEnum):
    """Which part of a memory operand a latency is about ("" for other operands)."""

    NONE = ""
    ADDRESS = "addr"
    ADDRESS_INDEX = "addr_index"
    MEMORY = "mem"


@dataclass(frozen=True, slots=True)
class LatencyKey:
    """Which latency it is: what tells those of one variant apart (the fields are those of `LatencyResult`)."""

    source: int
    destination: int
    part: LatencyPart = LatencyPart.NONE
    source_flag: str = ""
    destination_flag: str = ""
    same_register: bool = False
    fast_values: bool = False


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """Latency in core cycles from one operand to another.

    `source` and `destination` are operand indices; `source_flag` and `destination_flag` name the single status flag
    when the operand is the flags operand ("" for all of them alike). `chain` says which chain instructions were used;
    `fast_values` is true where operand values of the fast kind were used, `same_register` where several operands were
    the same register. `experiments` are the ids of the microbenchmarks that the number came out of.
    """

    source: int
    destination: int
    cycles: Fraction
    bound: Bound
    chain: str
    part: LatencyPart = LatencyPart.NONE
    source_flag: str = ""
    destination_flag: str = ""
    same_register: bool = False
    fast_values: bool = False
    spread: Fraction | None = None
    experiments: tuple[str, ...] = ()

    @property
    def key(self) -> LatencyKey:
        """Which latency it is."""
        return LatencyKey(
            self.source,
            self.destination,
            self.part,
            self.source_flag,
            self.destination_flag,
            self.same_register,
            self.fast_values,
        )


@dataclass(frozen=True, slots=True)
class PortUsage:
    """How many µops may use exactly which set of ports: `{frozenset("06"): 1, frozenset("0156"): 1}`.

    A port is a letter of `PORT_LETTERS`, as counters and simulator name it, or the name of a resource:

    - one that was found by time alone, whatever its maker calls it (`1*r01` is `{frozenset({"r0", "r1"}): 1}`);
    - one as published files have it: the floating-point pipes of AMD's cores (`1*FP01` is
      `{frozenset({"FP0", "FP1"}): 1}`), kinds of µops (`2*ALU`, `V`).
    """

    uops: Mapping[frozenset[str], int]

    def __str__(self) -> str:
        """Write it as `1*p0156+1*p06`: larger sets first, as in published data; "" if there is none."""
        ordered = sorted(self.uops.items(), key=lambda item: (-len(item[0]), port_set_name(item[0])))
        return "+".join(f"{count}*{port_set_name(ports)}" for ports, count in ordered if count)

    @property
    def total(self) -> int:
        """The number of µops that use any port."""
        return sum(self.uops.values())

    @classmethod
    def parse(cls, text: str) -> PortUsage:
        """Read `1*p0156+1*p06` ("" is no µop at all).

        Raises:
            ValueError: the text is not of that form.
        """
        uops: dict[frozenset[str], int] = {}
        for term in filter(None, text.split("+")):
            match = _TERM.fullmatch(term)
            if match is None:
                message = f"not a port usage: {text[:80]!r} (expected the form 1*p0156+1*p06)"
                raise ValueError(message)
            ports = frozenset(
                port for name in (match["ports"] or match["kind"]).split("|") for port in _ports_named(name)
            )
            uops[ports] = uops.get(ports, 0) + int(match["count"] or 1)
        return cls(uops)


_RESOURCE = rf"(?![{PORT_LETTERS}](?![A-Z_0-9]))[A-Z][A-Z_]*[0-9]*"
"""A resource's name, no single letter of a port; numbers at its end are several alike: FP01 is FP0 and FP1."""

_PORTS = rf"(?:[pr][{PORT_LETTERS}]+|{_RESOURCE})(?:\|{_RESOURCE})*"
_TERM = re.compile(rf"(?P<count>[0-9]{{1,9}})\*(?P<ports>{_PORTS})|(?P<kind>{_RESOURCE})")

_PLAIN_TERM = rf"(?:[0-9]{{1,9}}\*{_PORTS}|{_RESOURCE})"
PORT_USAGE = rf"{_PLAIN_TERM}(?:\+{_PLAIN_TERM})*"
"""What `PortUsage.parse` reads, as a regular expression ("" apart)."""

_WRITTEN_TERM = rf"[1-9][0-9]{{0,8}}\*{_PORTS}"
WRITTEN_PORT_USAGE = rf"{_WRITTEN_TERM}(?:\+{_WRITTEN_TERM})*"
"""What `str` makes of a port usage, as a regular expression ("" apart): every term has a count, of at least one µop."""


def _ports_named(name: str) -> Iterator[str]:
    """Yield the ports of `p06`, `r06`, `FP01` or `ALU`."""
    prefix = name.rstrip("0123456789")
    if name[0] == "p":
        yield from name[1:]
    elif name[0] == "r":
        yield from ("r" + letter for letter in name[1:])
    elif prefix == name:
        yield name
    else:
        yield from (prefix + number for number in name[len(prefix) :])


def is_by_time(port: str) -> bool:
    """Whether a port has a name that inference by time gives (`r` and a letter)."""
    return len(port) == 2 and port[0] == "r"


def port_order(port: str) -> tuple[int, str]:
    """Return what ports are sorted by: letters by the number of the port, after them resources by name."""
    if is_by_time(port):
        return len(PORT_LETTERS) + PORT_LETTERS.index(port[1]), port
    return (PORT_LETTERS.index(port), "") if len(port) == 1 and port in PORT_LETTERS else (2 * len(PORT_LETTERS), port)


def port_set_name(ports: frozenset[str]) -> str:
    """Write a set of ports as `p0156`, in the order of the port numbers; resources as `r01`, `FP01`, `ALU`."""
    alike: dict[tuple[str, bool], str] = {}
    for port in sorted(ports, key=port_order):
        prefix = "r" if port[0] == "r" else port.rstrip("0123456789") if port_order(port)[1] else ""
        number = port[len(prefix) :]
        alike[prefix or "p", bool(number)] = alike.get((prefix or "p", bool(number)), "") + number
    return "|".join(prefix + numbers for (prefix, _), numbers in alike.items()) or "p"


@dataclass(frozen=True, slots=True)
class Throughput:
    """Reciprocal throughput in core cycles per instruction; None where it is not known.

    `unrolled` and `loop` are measured, with their spreads (half the distance of the quartiles, per instruction);
    `ports` is computed from the port usage. `unrolled_rhythms` and `loop_rhythms` are the times of the same code in
    slower rhythms.
    """

    unrolled: Fraction | None = None
    loop: Fraction | None = None
    ports: Fraction | None = None
    unrolled_spread: Fraction | None = None
    loop_spread: Fraction | None = None
    unrolled_rhythms: tuple[Fraction, ...] = ()
    loop_rhythms: tuple[Fraction, ...] = ()


class Form(Enum):
    """A form of an instruction whose ports and throughput are measured by themselves.

    To add one: a row here, how its sequences are made (`generator.sequences.throughput`), and when it is measured
    (`inference.forms`). Its name in lower case stands in campaign files.

    Attributes:
        suffix: what the names of its results end with in the XML.
        short: for the result table.
        words: for sentences.
    """

    PLAIN = "", "", ""
    SAME_REGISTER = "_same_reg", "same reg", "same register"
    INDEXED = "_indexed", "indexed", "indexed address"

    def __init__(self, suffix: str, short: str, words: str) -> None:
        """Take a row."""
        self.suffix, self.short, self.words = suffix, short, words


SPECIAL_FORMS = tuple(form for form in Form if form is not Form.PLAIN)
"""The forms that are measured besides the plain one."""


@dataclass(frozen=True, slots=True)
class FormResult:
    """What was concluded about one form; `ports` is None where the port usage is not known."""

    ports: PortUsage | None = None
    throughput: Throughput = field(default_factory=Throughput)


class Step:
    """A step of a derivation; its kinds are in `results.findings`."""

    __slots__ = ()


class Failure:
    """Why something is not known, or a check that did not hold; its kinds are in `results.findings`."""

    __slots__ = ()


LATENCY = "latency"
"""The quantity of derivations of latencies."""

LEFT_OUT = "latencies left out"
"""The quantity of the derivation that names latencies that are not measured, with the reason."""


VALUE_CLASSES = "operand values"
"""The quantity of the derivation of times with other operand values."""

BYPASS = "bypass delay"
"""The quantity of the derivation of times with links of other domains."""

PRODUCERS = "producers"
"""The quantity of the derivation of times behind other producers of what is only read."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a number came out of experiments, for `--explain`.

    - `quantity`: its name in the XML ("ports_same_reg", "TP_unrolled", "div_cycles" ...), `LATENCY`, `LEFT_OUT`,
      `VALUE_CLASSES`, `BYPASS`, or `PRODUCERS`.
    - `experiments`: the ids of the microbenchmarks that the steps are about, in their order.
    - `latency`: which latency it is (None: another quantity, or a file that does not say).
    """

    quantity: str
    steps: tuple[Step, ...]
    experiments: tuple[str, ...] = ()
    latency: LatencyKey | None = None


@dataclass(frozen=True, slots=True)
class Characterization:
    """All conclusions about one variant (key and string of the catalogue) on one machine.

    `uops` is the number of executed µops (None: the backend cannot count them). `forms` has the port usage and
    throughput of the plain form, and of each other one that was measured. `failures` are checks that did not hold.
    `attributes` holds further integers for the XML by their XML names (`uops_retire_slots`, `uops_MITE`,
    `div_cycles` ...). `macro_fusible` names the conditional jumps that it fuses with (None: not tried, or it could not
    be told). `skipped` is the reason why nothing was measured (""). `derivations` say how the numbers came about.
    """

    key: str
    string: str
    iform: str
    uops: int | None = None
    forms: Mapping[Form, FormResult] = field(default_factory=lambda: {Form.PLAIN: FormResult()})
    latencies: tuple[LatencyResult, ...] = ()
    attributes: Mapping[str, int] = field(default_factory=dict)
    macro_fusible: tuple[str, ...] | None = None
    failures: tuple[Failure, ...] = ()
    skipped: str = ""
    derivations: tuple[Derivation, ...] = ()

    def of(self, form: Form) -> FormResult:
        """Return what was concluded about a form (an empty result if it was not measured)."""
        return self.forms.get(form, FormResult())

    @property
    def ports(self) -> PortUsage | None:
        """The port usage of the plain form."""
        return self.of(Form.PLAIN).ports

    @property
    def throughput(self) -> Throughput:
        """The throughput of the plain form."""
        return self.of(Form.PLAIN).throughput
