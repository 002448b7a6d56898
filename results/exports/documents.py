"""All tables as one JSON document: lists of records under `variants`, `latencies` and `ports`."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

from results.exports.tidy import tables

if TYPE_CHECKING:
    from results.exports.exporters import ExportRequest

OPTION = "json"
HELP = "All variants, latencies and ports as JSON."


def export(request: ExportRequest, file: IO[bytes]) -> str:
    """Write the three tables."""
    data = tables(request.entries)
    document = {name: getattr(data, name).records for name in data.__slots__}
    file.write(json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n")
    return ""
