"""Write the Intel files of this folder from a table of Intel's perfmon events.

    python -m runner.uarch.from_perfmon EVENTS.csv [FOLDER]

EVENTS.csv has one row per event and core type, extracted from the JSON files of Intel's perfmon repository. Its columns
are file, version, core_role, family_models, event_name, event_code, umask, umask_ext, counter, cmask, invert, edge,
any_thread and errata. The other tables:

- `counter_roles.tsv`: the events of each of our counters;
- `intel_cores.tsv`: the microarchitecture of each file;
- `derived_counters.tsv`: what has to be computed;
- `core_types.tsv`: how CPUID leaf 1AH tells a core role.
"""

from __future__ import annotations

import csv
import re
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from runner.uarch.tables import MicroarchitectureError, parse
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = dict[str, str]
# In perf's and perfmon's CPU names the family is decimal and the model hexadecimal
# (Linux, tools/perf/arch/x86/util/header.c).
_MODEL = re.compile(r"(?P<family>[0-9]+)-(?P<model>[0-9A-F]+)(-\[(?P<steppings>[0-9A-F]+)\])?")


def table(name: str) -> list[Row]:
    """Read a TSV table of this folder."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


def cpuid_rows(events: list[Row]) -> list[str]:
    """Return the `[[cpuid]]` tables of one core, from the distinct CPUs of its events."""
    roles = {row["role"]: row for row in table("core_types.tsv")}
    seen = {(item, row["core_role"], _source(row)) for row in events for item in row["family_models"].split(";")}
    lines = []
    for item, role, source in sorted(seen):
        match = _MODEL.fullmatch(item)
        if match is None or role not in roles:
            raise MicroarchitectureError(f"{source}: cannot read the CPU {item!r} with the role {role!r}")
        lines += ["[[cpuid]]", f"family = {match['family']}", f"model = 0x{match['model']}"]
        if match["steppings"]:
            lines.append(f"steppings = [{', '.join(f'0x{digit}' for digit in match['steppings'])}]")
        lines += [f"{key} = {roles[role][key]}" for key in ("core_type", "native_model") if roles[role][key] != "0"]
        lines += [f'source = "{source}"', ""]
    return lines


def event_rows(events: list[Row]) -> list[str]:
    """Return the `[[event]]` tables of one core: for each role the first event in its order of preference."""
    by_name = {row["event_name"]: row for row in reversed(events)}
    lines = []
    for role in table("counter_roles.tsv"):
        event = next((by_name[name] for name in role["events"].split(",") if name in by_name), None)
        if event is not None:
            lines += [*_event(role["counter"], event), ""]
    return lines


def _event(counter: str, row: Row) -> list[str]:
    lines = ["[[event]]", f'counter = "{counter}"', f'event = "{row["event_name"]}"']
    lines += [f"code = 0x{int(row['event_code'], 16):02X}", f"umask = 0x{int(row['umask'], 16):02X}"]
    if row["counter"].startswith("Fixed"):
        lines.append(f"fixed = {_fixed_counter(row)}")
    else:
        lines.append(f"counters = [{', '.join(row['counter'].split(','))}]")
    if int(row["umask_ext"] or "0", 16):
        lines.append(f"umask_ext = 0x{int(row['umask_ext'], 16):02X}")
    if int(row["cmask"] or 0):
        lines.append(f"cmask = {row['cmask']}")
    lines += [f"{ours} = true" for ours, theirs in _BITS if row[theirs] == "1"]
    if row["errata"] not in ("", "0", "null"):
        lines.append(f'errata = "{row["errata"]}"')
    return [*lines, f'source = "{_source(row)}"']


_BITS = (("invert", "invert"), ("edge", "edge"), ("per_core", "any_thread"))


def _fixed_counter(row: Row) -> int:
    """Return the number of the fixed counter: 0 counts instructions and 1 core cycles on every core.

    Source: Intel SDM vol. 3B, 20.2.2. The perfmon files of the oldest cores number them from 1 on.
    """
    return 0 if row["event_name"].startswith("INST_RETIRED") else 1


def _source(row: Row) -> str:
    return f"perfmon {row['file']} {row['version']}"


def _strings(items: Iterable[str]) -> str:
    """Write a TOML array of strings, without empty ones."""
    return "[" + ", ".join(f'"{item}"' for item in items if item) + "]"


def render(core: Row, events: list[Row]) -> str:
    """Return the TOML text of one core."""
    lines = ["# Written by runner/uarch/from_perfmon.py: change its tables, not this file.", ""]
    lines += [f'name = "{core["name"]}"', f'title = "{core["title"]}"', 'vendor = "GenuineIntel"']
    lines.append(f"ports = {_strings(core['ports'])}")
    lines += [f'port_kind = "{core["port_kind"]}"'] if core["port_kind"] else []
    lines.append("")
    lines += cpuid_rows(events) + event_rows(events)
    for row in table("derived_counters.tsv"):
        if core["name"] in row["cores"].split(","):
            lines += ["[[derived]]", f'counter = "{row["counter"]}"']
            lines += [f"{key} = {_strings(row[key].split(','))}" for key in ("plus", "minus")]
            lines += [f'source = "{row["source"]}"', ""]
    return "\n".join(lines)


def write_all(csv_path: Path, folder: Path) -> list[Path]:
    """Write one file per core and return their paths.

    Raises:
        MicroarchitectureError: the table has a core that `intel_cores.tsv` does not know, or the other way round.
    """
    with csv_path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    cores = {core["file"]: core for core in table("intel_cores.tsv")}
    files = {row["file"] for row in rows}
    if files != set(cores):
        raise MicroarchitectureError(
            f"{csv_path}: cores without a row in intel_cores.tsv: {sorted(files - set(cores))}, "
            f"rows without a core: {sorted(set(cores) - files)}"
        )
    written = []
    for name, core in cores.items():
        path = folder / f"{core['name'].lower()}.toml"
        text = render(core, [row for row in rows if row["file"] == name])
        parse(text, path.name)
        with atomic_write(path) as file:
            file.write(text.encode())
        written.append(path)
    return written


def main(arguments: list[str]) -> int:
    """Run the command in the module's docstring."""
    if len(arguments) not in (1, 2):
        sys.stderr.write(__doc__ or "")
        return 2
    folder = Path(arguments[1]) if len(arguments) == 2 else Path(__file__).parent
    sys.stdout.write(f"{len(write_all(Path(arguments[0]), folder))} files written to {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
