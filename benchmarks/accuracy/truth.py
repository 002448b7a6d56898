"""How much of the truth about simulated machines inference finds: `python -m benchmarks.accuracy.truth --help`.

For each machine every variant (or every N-th) of some extensions is characterized through the backend `sim`, and
compared with what the machine's model says. Inference sees the backend only. The table goes to standard output as TSV.
With `--table` it also replaces the machine's row in a file (`truth_campaign.tsv`). `--exceptions` gets a line for each
value that was not found: machine, variant, what, what was found, what is true.

The columns are those of `runner.verification.report`. `--database` compares a campaign's conclusions instead of making
them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from runner.verification.report import COLUMNS, keep
from runner.verification.run import chosen, compare, machines, run
from xed_convert.catalogue.catalogue import Catalogue


def main() -> None:
    """Print the table of some machines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("machines", nargs="+", help="HSW, SKX:separate, random:7, random:1-20 ...")
    parser.add_argument("--extensions", default="BASE,LONGMODE", help="comma-separated, or all")
    parser.add_argument("--every", type=int, default=1, help="only every N-th variant")
    parser.add_argument("--table", type=Path, help="a table (TSV) in which to replace the machine's row")
    parser.add_argument("--exceptions", type=Path, help="where to write what was not found again (TSV)")
    parser.add_argument(
        "--database", type=Path, help="the file of a campaign over one machine: compare what it concluded"
    )
    options = parser.parse_args()
    if options.table and options.table.exists() and not options.table.read_text().startswith("\t".join(COLUMNS) + "\n"):
        parser.error(f"{options.table} has other columns than are measured now; name another file")
    catalogue = Catalogue.load()
    lines: list[str] = []
    print("\t".join(COLUMNS))
    for machine in machines(options.machines):
        if options.database:
            report = compare(machine, catalogue, options.database)
        else:
            variants = chosen(catalogue, machine, options.extensions.split(","), options.every)
            report = run(machine, catalogue, variants)
        print(report.row())
        sys.stdout.flush()
        if options.table:
            keep(options.table, report)
        lines += report.exceptions
    if options.exceptions:
        options.exceptions.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
