"""Whether a change of the code keeps microbenchmarks, byte for byte, and conclusions.

    python -m benchmarks.changes.unchanged before.tsv                # on the old code
    python -m benchmarks.changes.unchanged before.tsv --against      # on the new code: lists what differs, exit code 1

A row of the file is a variant of a simulated machine, with two hashes: of all experiments that inference asked for
(their bytes included), and of its conclusion with derivations. Texts for people are in neither, so they may change.
A further row per machine has the experiments that all variants share. `--complete` compares more variants.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.changes.kept import Kept
from benchmarks.changes.verdicts import VerdictSource
from results.campaign.codec import encode_characterization
from runner.backends.sim import open_machine
from runner.verification.run import chosen
from xed_convert.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SAMPLES: dict[str, int | str] = {
    "HSW": 12,
    "SKL": 12,
    "SKX": 12,
    "ADL-P": 12,
    **{f"random:{seed}": 4 for seed in range(1, 7)},
}
"""How many variants of each machine are compared."""

COMPLETE: dict[str, int | str] = {
    "HSW": "BASE",
    "SKL": "BASE",
    "SKX": 1000,
    "ADL-P": 1000,
    **{f"random:{seed}": 4 for seed in range(1, 51)},
}
"""The same for `--complete`; a name is an extension of which every variant is compared."""

SHARED = "(shared)"
"""Stands for a variant in the row of the experiments that all variants of a machine share."""

Rows = dict[tuple[str, str], tuple[str, str]]


def digest(lines: Iterable[str]) -> str:
    """Return a short hash of some lines."""
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


def rows_of(samples: Mapping[str, int | str], most: int | None) -> Rows:
    """Characterize samples of machines, `most` variants of each; return the hashes by machine and variant."""
    found: Rows = {}
    with tempfile.TemporaryDirectory() as folder:
        source = VerdictSource(Path(folder))
        for name, sample in samples.items():
            kept, begun = Kept(Path(folder) / "none"), time.process_time()
            machine = open_machine(name)
            if isinstance(sample, str):
                variants = chosen(source.catalogue, machine, [sample], 1)[:most]
            else:
                variants = source.sample(machine, name, min(sample, most or sample))
            for variant, result, requests in source.conclusions(machine, name, variants, kept):
                conclusion = json.dumps(encode_characterization(result), sort_keys=True)
                found[name, variant.string] = digest(sorted(requests)), digest([conclusion])
            found[name, SHARED] = digest(sorted(kept.shared)), ""
            seconds = time.process_time() - begun
            print(f"{name}: {len(variants)} variants, {len(kept.asked)} experiments ({seconds:.0f} s)", flush=True)
    return found


def read(path: Path) -> Rows:
    """Return the rows of a file."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return {(machine, string): (experiments, conclusion) for machine, string, experiments, conclusion in rows}


def differences(old: Rows, new: Rows) -> list[str]:
    """Return a line for each variant that differs."""
    lines = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was is None or now is None:
            lines.append(f"{' '.join(key)}: only {'after' if was is None else 'before'}")
        elif was != now:
            what = [
                name for name, one, other in zip(("experiments", "conclusion"), was, now, strict=True) if one != other
            ]
            lines.append(f"{' '.join(key)}: other {' and '.join(what)}")
    return lines


def main() -> int:
    """Write the hashes, or compare with those of a file; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--against", action="store_true", help="compare with the file, do not write it")
    parser.add_argument("--machines", nargs="+", choices=list(COMPLETE), metavar="NAME", help="only these")
    parser.add_argument("--complete", action="store_true", help="4,712 variants of 54 machines, not 72 of ten")
    parser.add_argument("--most", type=int, help="variants of each machine at most")
    options = parser.parse_args()
    samples = COMPLETE if options.complete else SAMPLES
    samples = {name: sample for name, sample in samples.items() if name in (options.machines or samples)}
    found = rows_of(samples, options.most)
    if not options.against:
        with atomic_write(options.file) as file:
            file.write("".join("\t".join((*key, *value)) + "\n" for key, value in found.items()).encode())
        return 0
    before = {key: row for key, row in read(options.file).items() if key[0] in samples}
    if options.most:
        before = {key: row for key, row in before.items() if key in found}
    lines, same = differences(before, found), sum(before.get(key) == row for key, row in found.items())
    print("\n".join([*lines, f"{same} of {len(found)} rows are the same"]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
