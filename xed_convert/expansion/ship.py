"""Make the shipped catalogue: `python -m xed_convert.expansion.ship XED_DATAFILES`.

It takes the datafiles of SHIPPED_VERSION only. The same datafiles give the same bytes (with the same zlib).
"""

from __future__ import annotations

import sys
from pathlib import Path

from xed_convert.catalogue.store import SHIPPED, write_store
from xed_convert.datafiles.folder import Datafiles
from xed_convert.errors import ConversionError, UopscopeError
from xed_convert.expansion.convert import convert
from xed_convert.files import atomic_write

SHIPPED_VERSION = "2026.07.15"


def ship(folder: Path, target: Path = Path(SHIPPED)) -> int:
    """Convert the datafiles in `folder` to the catalogue file `target`; return the number of variants.

    Raises:
        UopscopeError: the datafiles are of another version, cannot be converted, or the file cannot be written.
    """
    datafiles = Datafiles.load(folder)
    if datafiles.version != SHIPPED_VERSION:
        message = f"{folder}: these datafiles are not those of XED v{SHIPPED_VERSION}"
        raise ConversionError(message, hint=f"git clone --depth 1 -b v{SHIPPED_VERSION} of intelxed/xed has them.")
    conversion = convert(datafiles)
    with atomic_write(target) as file:
        write_store(conversion.variants, file, source=f"Intel XED v{datafiles.version}")
    return len(conversion.variants)


def main(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m xed_convert.expansion.ship XED_DATAFILES [TARGET]\n")
        return 2
    try:
        count = ship(Path(arguments[0]), Path(arguments[1]) if len(arguments) == 2 else Path(SHIPPED))
    except UopscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{count} variants\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
