"""All frames as one JSON document: lists of records under `variants`, `latencies` and `ports`."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

from results.exports.frames import frames

if TYPE_CHECKING:
    from results.exports.exporters import Request

OPTION = "json"
HELP = "All variants, latencies and ports as JSON."


def export(request: Request, file: IO[bytes]) -> str:
    """Write the three frames."""
    data = frames(request.entries)
    tables = {name: json.loads(getattr(data, name).to_json(orient="records")) for name in data.__slots__}
    file.write(json.dumps(tables, ensure_ascii=False, indent=1).encode() + b"\n")
    return ""
