"""The database that comes with the program: what was really measured, built in by the project."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from results.database import DatabaseError

NAME = "measured.xml.xz"


def shipped_database() -> Path:
    """Return the path of the shipped database.

    Raises:
        DatabaseError: this installation has none.
    """
    path = Path(str(resources.files("results"))) / "data" / NAME
    if not path.is_file():
        raise DatabaseError(
            f"this installation has no {NAME}", hint="Name a database: an instructions.xml or a campaign."
        )
    return path
