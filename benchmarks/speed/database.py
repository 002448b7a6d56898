"""Databases at full size: `python -m benchmarks.speed.database [PART ...] [--work FOLDER] [--mutations N]`.

Parts (default: all): `build` 8 campaigns of the full ISA into one instructions.xml; `diff` of two full-ISA files;
`site` for one architecture with 14 experiments per variant; `key`, the time that a keystroke in the search takes in
Chromium; `fuzz`, mutated XML and SQLite files for the readers. The campaigns hold what the model of SPR says about all
its variants, with samples as noisy as the clock's. For `build` they stand under 8 names, so that each is as large as
the largest.

The table goes to standard output as TSV: what, goal, wall seconds, CPU seconds (of all processes), peak memory of a
process in MB, and what else there is to say.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from results.database.reader import read_database
from results.site import pages, tables, views
from runner.verification.synthetic import EXPERIMENTS, write_campaign
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from selenium.webdriver import Chrome

MACHINE = "SPR"
NAMES = ("SNB", "HSW", "BDW", "SKL", "SKX", "ICX", "ADL-P", "SPR")
TYPED = "vpaddd zmm"


def main() -> None:
    """Measure the parts that are named."""
    parser = argparse.ArgumentParser(description="Databases at full size.")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--work", type=Path, help="a folder for files, which stay there")
    parser.add_argument("--mutations", type=int, default=100_000)
    options = parser.parse_args()
    print("part\tgoal\twall_s\tcpu_s\tpeak_mb\tmore", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        work.mkdir(exist_ok=True)
        for part in options.parts:
            PARTS[part](work, options.mutations)


def row(part: str, goal: str, figures: tuple[float, float, float], more: str = "") -> None:
    """Print a line of the table."""
    print(part, goal, *(f"{figure:.2f}" for figure in figures), more, sep="\t", flush=True)


def run(*arguments: object) -> tuple[float, float, float]:
    """Run a command of uopscope; return wall and CPU seconds, and the peak memory in MB."""
    command = [sys.executable, "-m", "runner.cli.uopscope", *map(str, arguments)]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"{' '.join(command)} failed")
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def campaign(work: Path, name: str, experiments: int = 0) -> Path:
    """Return a campaign that was made before, or make it."""
    path = work / f"{name}-{experiments}.sqlite"
    if not path.exists():
        first = work / f"{MACHINE}-{experiments}.sqlite"
        if name == MACHINE:
            write_campaign(path, MACHINE, Catalogue.load(), experiments=experiments)
        else:
            shutil.copy(campaign(work, MACHINE, experiments) if not first.exists() else first, path)
            _rename(path, name)
    return path


def _rename(path: Path, name: str) -> None:
    with sqlite3.connect(path) as connection:
        (data,) = connection.execute("SELECT data FROM provenance").fetchone()
        renamed = json.dumps({**json.loads(data), "architecture": name})
        connection.execute("UPDATE provenance SET data = ?", (renamed,))
    connection.close()


def build(work: Path, _mutations: int) -> None:
    """Build a database of 8 architectures."""
    campaigns = [campaign(work, name) for name in NAMES]
    output = work / "eight.xml"
    figures = run("db", "build", *campaigns, "-o", output)
    row("db build, 8 architectures", "60 s, 1000 MB", figures, f"{output.stat().st_size / 1e6:.0f} MB of XML")


def diff(work: Path, _mutations: int) -> None:
    """Compare two files of one architecture, and two campaigns."""
    old, new = work / "old.xml", work / "new.xml"
    run("db", "build", campaign(work, MACHINE), "-o", old)
    new.write_bytes(old.read_bytes().replace(b'uops="3"', b'uops="4"').replace(b'cycles="5"', b'cycles="6"'))
    row("db diff, XML", "10 s", run("db", "diff", old, new))
    row("db diff --agreement, XML", "", run("db", "diff", "--agreement", old, new))
    row("db check", "", run("db", "check", old))


def site(work: Path, _mutations: int) -> None:
    """Make the site of one architecture with experiments."""
    source, folder = campaign(work, MACHINE, EXPERIMENTS), work / "site"
    figures = run("site", source, "-o", folder, "--jobs", 2)
    sizes = Counter({part.name: sum(_sizes(part)) for part in folder.iterdir()})
    more = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.most_common(4))
    pages = sum(1 for _ in folder.rglob("*.html"))
    row("site, 1 architecture", "300 s, 60 MB", figures, f"{pages} pages, {sizes.total() / 1e6:.1f} MB: {more}")


def _sizes(path: Path) -> list[int]:
    return [one.stat().st_size for one in (path.rglob("*") if path.is_dir() else [path]) if one.is_file()]


def key(work: Path, _mutations: int) -> None:
    """Type into the search of a table in Chromium, and take the time until the new rows are laid out."""
    from selenium import webdriver  # noqa: PLC0415 - only for this part

    folder = work / "table"
    run("db", "build", *[campaign(work, name) for name in NAMES[-2:]], "-o", work / "two.xml")
    _write_table(work / "two.xml", folder)
    options = webdriver.ChromeOptions()
    for argument in ("headless", "no-sandbox", "disable-gpu"):
        options.add_argument(f"--{argument}")
    chrome = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver") or ""))
    try:
        chrome.execute_cdp_cmd("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        chrome.execute_cdp_cmd("Performance.enable", {})
        chrome.get((folder / "index.html").as_uri())
        rows = chrome.execute_script("return document.getElementById('count').textContent")
        found = [_keystroke(chrome, text) for text in _typed_and_taken_back()]
    finally:
        chrome.quit()
    wall, cpu = ([one[which] for one in found] for which in (0, 1))
    texts = " ".join(f"{1000 * one:.0f}" for one in cpu)
    more = f"table of {rows}; the slowest key; {TYPED!r} and back, ms of CPU per key: {texts}"
    row("keystroke", "0.1 s", (max(wall), max(cpu), 0.0), more)


def _typed_and_taken_back() -> list[str]:
    """Return what stands in the search after each key."""
    prefixes = [TYPED[: length + 1] for length in range(len(TYPED))]
    return [*prefixes, *prefixes[-2::-1], ""]


def _keystroke(chrome: Chrome, text: str) -> tuple[float, float]:
    """Return wall and CPU seconds of the page's thread until the rows for a text are laid out."""
    before = _busy(chrome)
    milliseconds = float(chrome.execute_script(KEYSTROKE, text))
    return milliseconds / 1000, _busy(chrome) - before


def _busy(chrome: Chrome) -> float:
    """Return the CPU seconds that scripts, styles and layout have taken."""
    metrics = chrome.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    values = {one["name"]: float(one["value"]) for one in metrics}
    return values["ScriptDuration"] + values["LayoutDuration"] + values["RecalcStyleDuration"]


def _write_table(database: Path, folder: Path) -> None:
    """Write the page with the table of everything, and its data, without the pages that it links to."""
    entries = [entry for entry in read_database(database) if entry.results]
    names = views.slugs(entry.variant.string for entry in entries)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    shutil.copytree(Path(views.__file__).parent / "assets", folder / "assets", dirs_exist_ok=True)
    (folder / "index.html").write_text(pages.index_page(NAMES[-2:], (), (), shows_experiments=False), encoding="utf-8")
    (folder / "data" / "variants.js").write_text(tables.variants_script(entries, names), encoding="utf-8")
    for name in NAMES[-2:]:
        (folder / "data" / f"{name}.js").write_text(tables.architecture_script(name, entries), encoding="utf-8")


KEYSTROKE = """
const search = document.getElementById("search"), start = performance.now();
search.value = arguments[0];
search.dispatchEvent(new Event("input", { bubbles: true }));
document.body.offsetHeight;
return performance.now() - start;
"""


def fuzz(work: Path, mutations: int) -> None:
    """Read mutated files: each has to be read or refused, soon, and in little memory."""
    small = work / "small.xml"
    run("db", "build", campaign(work, MACHINE), "-o", work / "old.xml")
    _head(work / "old.xml", small)
    _fuzzed("XML", small, mutations // 2, lambda path: sum(1 for _ in read_database(path)))
    part = work / "small.sqlite"
    if not part.exists():
        _few(part)
    _fuzzed("SQLite", part, mutations - mutations // 2, lambda path: sum(1 for _ in _everything(path)))


def _head(source: Path, target: Path) -> None:
    """Write the first instructions of a database that have results."""
    text = source.read_text(encoding="utf-8")
    end = text.index("</instruction>", text.index("<measurement")) + len("</instruction>")
    start = text.rindex("<instruction ", 0, end)
    head = text[: text.index("<instruction ")]
    target.write_text(f"{head}{text[start:end]}\n  </extension>\n</root>\n", encoding="utf-8")


def _few(path: Path) -> None:
    catalogue = Catalogue.load()
    write_campaign(path, MACHINE, Catalogue(catalogue.find("ADC_GPRv_GPRv")[:2]), experiments=2)


def _everything(path: Path) -> list[object]:
    """Read all that a campaign file holds, as `db build` and `site` do."""
    from results.campaign.store import Store  # noqa: PLC0415 - see `Store.read`

    with Store.read(path) as store:
        found: list[object] = [*store.provenances(), store.backend(), store.outcomes()]
        for conclusion in store.conclusions():
            found += store.evidence(conclusion)
    return found


def _fuzzed(kind: str, source: Path, count: int, read: Callable[[Path], object]) -> None:
    whole, path = source.read_bytes(), source.with_name(f"mutated{source.suffix}")
    rng = random.Random(1)
    outcomes: Counter[str] = Counter()
    slowest, started, cpu = 0.0, time.monotonic(), time.process_time()
    for number in range(count):
        path.write_bytes(mutated(whole, rng))
        begun = time.process_time()
        try:
            read(path)
            outcomes["read"] += 1
        except UopscopeError:
            outcomes["refused"] += 1
        except Exception as error:  # noqa: BLE001 - whatever else it is, it is a finding
            outcomes[f"{type(error).__name__}"] += 1
            path.replace(path.with_name(f"finding-{kind}-{number}{source.suffix}"))
        slowest = max(slowest, time.process_time() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    more = ", ".join(f"{outcome} {times}" for outcome, times in outcomes.most_common())
    figures = (time.monotonic() - started, time.process_time() - cpu, peak)
    row(f"fuzz {kind}, {count} mutations", "", figures, f"{more}; slowest {slowest:.2f} s CPU; {len(whole)} bytes")


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes, cut some out, double some, or end early."""
    text = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(max(1, len(text)))
        length = min(rng.choice((1, 2, 4, 16, 200)), len(text) - at)
        match rng.randrange(6):
            case 0:
                text[at : at + length] = rng.randbytes(length)
            case 1:
                del text[at : at + length]
            case 2:
                text[at:at] = text[at : at + length] * rng.choice((1, 3, 50))
            case 3:
                del text[at:]
            case 4:
                text[at : at + 1] = rng.choice((b"9" * 40, b"<", b'"', b"&", b"\0", b"\xff\xff\xff\xff", b"-1"))
            case _ if text:
                text[at % len(text)] ^= 1 << rng.randrange(8)
    return bytes(text)


PARTS: dict[str, Callable[[Path, int], None]] = {"build": build, "diff": diff, "site": site, "key": key, "fuzz": fuzz}


if __name__ == "__main__":
    main()
