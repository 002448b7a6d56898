"""The process in which keystone runs: `python -m xed_convert.assembly.keystone_child`.

Keystone 0.9.2 can end the process that calls it (`mov r8b, ah`), so it gets a process of its own. Each line of standard
input is a JSON text to assemble. Each line of standard output is the answer: the bytes in hexadecimal, or null if
keystone cannot assemble the text. The first line of output says whether keystone could be loaded.

keystone-engine 0.9.2 imports `pkg_resources` to find its library. That module was a part of setuptools, is slow to
load, and is gone from setuptools 82. A module with the one function that keystone calls takes its place.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any


def _provide_pkg_resources() -> None:
    """Put a stand-in for pkg_resources in its place."""
    module = types.ModuleType("pkg_resources")

    def resource_filename(package: str, name: str) -> str:
        """Return the path of a file in a package."""
        spec = importlib.util.find_spec(package.partition(".")[0])
        origin = spec.origin if spec and spec.origin else ""
        return str(Path(origin).parent / name)

    module.resource_filename = resource_filename  # type: ignore[attr-defined] # a module made at run time
    sys.modules["pkg_resources"] = module


def _load() -> Any:  # noqa: ANN401 - keystone publishes no types
    """Return keystone's assembler for 64-bit Intel syntax, or None."""
    import warnings  # noqa: PLC0415 - only this process needs it

    warnings.simplefilter("ignore")
    try:
        _provide_pkg_resources()
        import keystone  # noqa: PLC0415 - this is the only process that may import it

        return keystone.Ks(keystone.KS_ARCH_X86, keystone.KS_MODE_64)
    except Exception:  # noqa: BLE001 - whatever keeps keystone from loading: the parent does without it
        return None


def _assemble(engine: Any, text: str) -> str | None:  # noqa: ANN401 - keystone publishes no types
    """Assemble one text."""
    try:
        data, _count = engine.asm(text, as_bytes=True)
    except Exception:  # noqa: BLE001 - keystone raises its own errors and, on odd input, Python's
        return None
    return data.hex() if data else None


def main() -> None:
    """Answer until standard input ends."""
    engine = _load()
    sys.stdout.write(json.dumps(engine is not None) + "\n")
    sys.stdout.flush()
    if engine is None:
        return
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_assemble(engine, json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
