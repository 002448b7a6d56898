"""All variants as Parquet: the same columns as CSV, with their types."""

from __future__ import annotations

import importlib
import io
from typing import IO, TYPE_CHECKING

from results.exports.tidy import tables
from xed_convert.extras import extra

if TYPE_CHECKING:
    from results.exports.exporters import ExportRequest

OPTION = "parquet"
HELP = "All variants as Parquet."


def export(request: ExportRequest, file: IO[bytes]) -> str:
    """Write the table of variants; a column with a number that is not whole has only such numbers.

    Raises:
        MissingPackageError: pyarrow is not installed.
    """
    pyarrow = extra("pyarrow", "--parquet")
    parquet = importlib.import_module("pyarrow.parquet")
    rows = tables(request.entries).variants
    table = pyarrow.table({name: _of_one_type(rows[name]) for name in rows.columns})
    content = io.BytesIO()  # pyarrow wants to seek, which standard output cannot
    parquet.write_table(table, content)
    file.write(content.getvalue())
    return ""


def _of_one_type(values: list[object]) -> list[object]:
    """Return a column's values as one type: floats if any is one, text if any is text."""
    types = {type(value) for value in values if value is not None}
    if len(types) <= 1:
        return values
    one: type = float if types == {int, float} else str
    return [None if value is None else one(value) for value in values]
