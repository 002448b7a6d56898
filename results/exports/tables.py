"""All variants as CSV: a row per variant and architecture, with every attribute of its measurement."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from results.exports.tidy import tables

if TYPE_CHECKING:
    from results.exports.exporters import ExportRequest

OPTION = "csv"
HELP = "All variants as CSV."


def export(request: ExportRequest, file: IO[bytes]) -> str:
    """Write the table of variants."""
    file.write(tables(request.entries).variants.to_csv().encode())
    return ""
