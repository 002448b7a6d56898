"""The database that comes with the program: measurements of real CPUs, and the campaigns from which it is built."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from results.database.reader import DatabaseError

NAME = "measured.xml.xz"
CAMPAIGN_NAMES = "measured.{}.jsonl.xz"
"""The name of the campaign of an architecture ("*": of any)."""
MEMORY_NAMES = "memory.{}.json.xz"
"""The name of an architecture's memory measurements, likewise."""


def data_folder() -> Path:
    """Return the folder of the shipped data."""
    return Path(str(resources.files("results"))) / "data"


def shipped_campaigns(folder: Path | None = None) -> list[Path]:
    """Return the shipped campaigns, one for each architecture, in the order of their names."""
    return sorted((folder or data_folder()).glob(CAMPAIGN_NAMES.format("*")))


def shipped_memory(name: str) -> Path | None:
    """Return what `uopscope memory --json` wrote on a machine of that architecture (None: nothing is shipped).

    The case of its letters does not matter.
    """
    wanted = MEMORY_NAMES.format(name).casefold()
    return next((path for path in shipped_memories() if path.name.casefold() == wanted), None)


def shipped_memories() -> list[Path]:
    """Return what is shipped about memory, one file for each architecture, in the order of their names."""
    return sorted(data_folder().glob(MEMORY_NAMES.format("*")))


def shipped_database() -> Path:
    """Return the path of the shipped database.

    Raises:
        DatabaseError: this installation has none.
    """
    path = data_folder() / NAME
    if not path.is_file():
        raise DatabaseError(
            f"this installation has no {NAME}", hint="name a database: an instructions.xml or a campaign"
        )
    return path


def is_shipped(path: Path) -> bool:
    """Whether a database or campaign is one of those that are shipped."""
    return path.resolve().parent == data_folder().resolve()
