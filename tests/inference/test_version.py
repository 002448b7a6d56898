"""The version of the inference: any file that decides what is concluded gives another one."""

from __future__ import annotations

import shutil
from pathlib import Path

from inference.version import SOURCES, inference_version
from results.version import hash_of_sources
from results.version import sources as sources_in

ROOT = Path(__file__).resolve().parents[2]


def copied(target: Path) -> Path:
    """Copy the packages that decide what is concluded, and those beside them in the same folders."""
    for name in {source.partition("/")[0] for source in SOURCES}:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
    return target


def sources(root: Path) -> list[Path]:
    return list(sources_in(SOURCES, root))


def fresh(root: Path) -> str:
    inference_version.cache_clear()
    hash_of_sources.cache_clear()
    return inference_version(root)


def test_each_file_that_decides_gives_another_version(tmp_path: Path) -> None:
    root = copied(tmp_path)
    found = {str(path.relative_to(root)) for path in sources(root)}
    assert {"inference/variant.py", "inference/port_usage.py", "inference/builder.py"} <= found
    assert {"inference/ports/infer.py", "inference/latency/infer.py", "generator/chains/links.py"} <= found
    assert {"runner/measuring/aggregate.py", "results/ports.py", "results/model.py"} <= found
    before = fresh(root)
    for path in sources(root):
        text = path.read_bytes()
        path.write_bytes(text + b"\n")
        assert fresh(root) != before, path
        path.write_bytes(text)
    assert fresh(root) == before


def test_a_constant_of_port_inference_gives_another_version(tmp_path: Path) -> None:
    root = copied(tmp_path)
    before = fresh(root)
    path = root / "inference" / "port_usage.py"
    text = path.read_text(encoding="utf-8")
    assert "\nLONG_CHAIN = 6\n" in text
    path.write_text(text.replace("\nLONG_CHAIN = 6\n", "\nLONG_CHAIN = 7\n"), encoding="utf-8")
    assert fresh(root) != before


def test_every_python_file_of_inference_and_generator_decides(tmp_path: Path) -> None:
    root = copied(tmp_path)
    every = {path for name in ("inference", "generator") for path in (root / name).rglob("*.py")}
    assert every <= set(sources(root))


def test_what_only_words_things_gives_the_same_version(tmp_path: Path) -> None:
    root = copied(tmp_path)
    before = fresh(root)
    path = root / "results" / "sentences.py"
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert fresh(root) == before
