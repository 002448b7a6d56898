"""All variants as Parquet: the same columns as CSV, with their types."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING

from results.exports.frames import frames

if TYPE_CHECKING:
    from results.exports.exporters import Request

OPTION = "parquet"
HELP = "All variants as Parquet."


def export(request: Request, file: IO[bytes]) -> str:
    """Write the frame of variants."""
    content = io.BytesIO()  # pyarrow wants to seek, which standard output cannot
    frames(request.entries).variants.to_parquet(content, index=False)
    file.write(content.getvalue())
    return ""
