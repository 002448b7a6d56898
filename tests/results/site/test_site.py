"""The site: its pages by their text, and in a real browser where there is one."""

from __future__ import annotations

import dataclasses
import json
import re
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results import sentences
from results.campaign.records import Sample, StoredBenchmark
from results.campaign.store import Store
from results.database.reader import ArchitectureResult, DatabaseError, Entry, LatencyRow
from results.findings import Delays, NoPorts, Stated, Text, Unplaced
from results.memory.model import MeasuredLevel, Time
from results.model import Characterization, Derivation, Form, Measurement, PortUsage, Provenance, Series, Status
from results.site import attributes, build, experiments, lists, memory, pages, views
from results.site.attributes import described
from results.site.build import Site, build_site
from results.site.lists import list_pages
from tests.browser import browsing, needs_browser
from tests.nonempty import faults, some
from tests.results.database.strategies import variant
from tests.results.memory.test_documents import REPORT
from tests.shared import CHECKOUT
from xed_convert.files import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

    from xed_convert.model import InstructionVariant


def result(architecture: str, ports: str = "1*p06", cycles: int = 1, **more: str) -> ArchitectureResult:
    throughput = {"TP_unrolled": "0.50", "TP_loop": "0.55", "TP_ports": "0.50", "TP_loop_spread": "0.02"}
    latencies = (
        LatencyRow(1, 2, {"cycles": str(cycles)}),
        LatencyRow(2, 2, {"cycles": "9", "cycles_is_upper_bound": "1", "cycles_same_reg": "0"}),
    )
    return ArchitectureResult(architecture, {"uops": "1", "ports": ports, **throughput, **more}, latencies)


def entries() -> tuple[Entry, ...]:
    found = []
    for number, name in enumerate(f"OP{letter}{other}" for letter in "ABCDEFGH" for other in "ABCDEFGHIJKLMNOP"):
        results = {"SKL": result("SKL", cycles=number % 7), "HSW": result("HSW", "1*p5" if number % 2 else "1*p06")}
        found.append(Entry(variant(name, "BASE" if number < 64 else "AVX"), results))
    hostile = dataclasses.replace(variant("HOSTILE"), string="<script>alert(1)</script> & (R64)", asm="</script>")
    failed = dataclasses.replace(
        result("SKL", simulated="1"), failures=(Stated("sums <do> differ", "the ports <do> not add up"),)
    )
    return (*found, Entry(hostile, {"SKL": failed}), Entry(variant("NOTHING"), {}))


SKL = Provenance("SKL", "a CPU", "6-5E-3", "0x1", "6.1", "sim", "1", "2026-01-01T00:00:00Z", is_model=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "site"
    count = build_site(Site(entries(), (SKL,)), folder, jobs=2)
    assert count == 2 + 2 + 128 * 2 + 1 + 2  # two extensions have a list each
    return folder


def test_what_a_page_says(site: Path) -> None:
    text = (site / "v" / "SKL" / "opab-r64-r64.html").read_text(encoding="utf-8")
    for expected in ("1*p06", "0.55 cycles ± 0.02", "≤ 9", "(same register)", "../../v/HSW/opab-r64-r64.html"):
        assert expected in text
    assert "not known" not in text


def test_the_first_page_has_a_card_for_each_architecture(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    for expected in (
        '<a href="arch/HSW.html">HSW</a>',
        "A machine model, simulated: a CPU, backend sim, 2026-01-01",
        "<b>129</b> instruction variants, <b>129</b> with port usage",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("values", "cycles", "expected"),
    [
        ({"uops": "1", "ports": "1*p06", "TP_unrolled": "0.25"}, "1", "Latency 1 cycle; up to 4.0 per cycle; 1 µop; p"),
        ({"TP_loop": "2.50"}, "3", "Latency 3 cycles; one every 2.5 cycles."),
        ({"TP_loop": "1.00"}, "3", "Latency 3 cycles; one per cycle."),
        ({"ports": "1*r01", "ports_by_time": "1"}, None, "Ports 1*r01, by time alone."),
        ({}, None, ""),
    ],
)
def test_a_page_begins_with_the_answer(values: dict[str, str], cycles: str | None, expected: str) -> None:
    latencies = (LatencyRow(1, 2, {"cycles": cycles}),) if cycles else ()
    assert views.headline(ArchitectureResult("SKL", values, latencies)).startswith(expected)
    assert bool(expected) == bool(views.headline(ArchitectureResult("SKL", values, latencies)))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("uops_MITE_same_reg", "2", ("µops from the legacy decoders, same register", "2")),
        ("complex_decoder", "1", ("Only the first decoder can decode it", "yes")),
        ("unit_ALU", "1", ("µops on units of the kind ALU", "1")),
        ("slower_with_DENORMALS", "9", ("Slower with DENORMALS as operand values, by", "9 cycles")),
        ("bypass_float", "1", ("Bypass delay between floating-point instructions", "1 cycle")),
        ("slower_after_add_imm", "2", ("Slower behind an addition of an immediate, by", "2 cycles")),
        ("slower_after_sign", "1", ("Slower behind FCHS, by", "1 cycle")),
        ("slower_after_dirty_uppers", "1", ("Slower while upper halves of vectors hold something, by", "1 cycle")),
        ("slower_after_NEW", "2", ("Slower behind NEW, by", "2 cycles")),
        ("macro_fusible", "JZ;JNZ", ("Fuses with", "JZ, JNZ")),
        ("of_somebody_else", "1", ("of_somebody_else", "1")),
    ],
)
def test_attributes_have_words(name: str, value: str, expected: tuple[str, str]) -> None:
    assert described(name, value) == expected


def test_every_attribute_that_a_page_lists_has_words() -> None:
    documented = (CHECKOUT / "docs" / "database.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (`[^|]+) \|[^|]+\|[^|]+\|$", documented.partition("| attribute of `<measurement>`")[2], re.MULTILINE
    )
    names = [name for row in rows for name in re.findall(r"`([a-zA-Z_]+)`", row)]
    listed = [name for name in names[: names.index("simulated")] if pages._is_other(name)]
    assert {"some_ports", "div_cycles"} <= set(listed)
    assert [name for name in listed if described(name, "1")[0] == name] == []


@pytest.mark.parametrize(("ports", "is_made_up"), [("1*r01", True), ("2*FP23", False)])
def test_pages_say_that_ports_are_by_time_and_what_their_counts_are(
    ports: str, is_made_up: bool, tmp_path: Path
) -> None:
    values = {"ports": ports, "ports_by_time": "1", "TP_unrolled": "1.00"}
    entry = Entry(variant("TIMED"), {"ZEN4": ArchitectureResult("ZEN4", values)})
    build_site(Site((entry,)), tmp_path / "site", jobs=1)
    (page,) = (tmp_path / "site" / "v" / "ZEN4").iterdir()
    text = page.read_text("utf-8")
    assert "how many cycles a port is occupied, not how many µops" in text
    assert ("published names are not known" in text) == is_made_up
    assert "with port usage by time alone" in (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "inferred by time alone" in (tmp_path / "site" / "arch" / "ZEN4.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("values", "why", "expected"),
    [
        ({"TP_unrolled": "0.17", "TP_loop": "0.16", "issue_slots": "1"}, Unplaced, "none, or 6 or more to choose from"),
        ({"TP_unrolled": "1.00"}, Unplaced, "not known"),
        ({"TP_unrolled": "0.17", "some_ports": "1*r0"}, Unplaced, "not known"),
        ({"TP_unrolled": "0.17", "issue_slots": "1"}, None, "not known"),
        ({}, Unplaced, "not known"),
        ({"uops": "0"}, None, "none"),
    ],
)
def test_a_page_says_how_many_ports_there_are_if_any(
    values: dict[str, str], why: type[Unplaced] | None, expected: str
) -> None:
    failure = NoPorts(Form.PLAIN, Unplaced(PortUsage({}), 1) if why else Delays((), PortUsage({}), 1))
    stated = Stated(sentences.reason(failure), sentences.failure(failure))
    assert views.ports_text(ArchitectureResult("ZEN3", values, failures=(stated,))) == expected


@pytest.mark.parametrize("name", ["index.html", "compare.html"])
def test_without_scripts_a_page_says_what_it_needs_and_does_not_seem_to_load(name: str, tmp_path: Path) -> None:
    build_site(Site(entries()), tmp_path / "site", jobs=1)
    text = (tmp_path / "site" / name).read_text("utf-8")
    (status,) = re.findall(r'<p id="count".*?</p>', text)
    assert "needs JavaScript" in status
    assert "Loading" not in re.sub(r"<script.*?</script>", "", text)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"min_cycles": "10", "max_cycles": "18"}, "10-18"),
        ({"min_cycles": "9", "min_cycles_is_upper_bound": "1", "max_cycles": "17"}, "≤9-17"),
        ({"min_cycles": "1", "max_cycles": "5", "max_cycles_is_upper_bound": "1"}, "1-≤5"),
        ({"cycles": "4", "cycles_addr": "9"}, "4-9"),
        ({"cycles": "9", "cycles_is_upper_bound": "1"}, "≤9"),
        ({"cycles": "9", "cycles_is_upper_bound": "1", "cycles_addr": "9"}, "9"),
    ],
)
def test_the_range_of_latencies_begins_with_the_least_that_the_matrix_shows(
    values: dict[str, str], expected: str
) -> None:
    assert views.latency_range(ArchitectureResult("ZEN4", {}, (LatencyRow(1, 2, values),))) == expected


def test_every_producer_has_words() -> None:
    tables = CHECKOUT / "generator" / "tables"
    rows = [line.split("\t") for line in (tables / "producers.tsv").read_text("utf-8").splitlines()[1:]]
    names = {row[1] for row in rows if len(row) > 1 and row[1] != "name"}
    rows = [line.split("\t") for line in (tables / "carriers.tsv").read_text("utf-8").splitlines()]
    names |= {row[2] for row in rows if len(row) > 2 and row[1] == "producer"}
    for name in some(names, 20):
        assert f"slower_after_{name}" in attributes._table()


def test_what_is_not_known_is_no_failed_check(tmp_path: Path) -> None:
    build_site(Site(entries()[-2:]), tmp_path / "site", jobs=1)
    (page,) = (tmp_path / "site" / "v" / "SKL").iterdir()
    assert "Not known: the ports &lt;do&gt; not add up" in page.read_text()


def test_campaigns_that_differ_in_their_time_only_are_one(tmp_path: Path) -> None:
    later = dataclasses.replace(SKL, time="2026-01-02T00:00:00Z")
    build_site(Site(entries()[:3], (SKL, later)), tmp_path / "site", jobs=1)
    text = (tmp_path / "site" / "arch" / "SKL.html").read_text()
    assert text.count("Simulated with sim") == 1
    assert "2026-01-01T00:00:00Z, 2026-01-02T00:00:00Z" in text


def test_nothing_from_the_data_becomes_markup(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert "<script>alert" not in path.read_text(encoding="utf-8")
    text = (site / "data" / "variants.js").read_text(encoding="utf-8")
    assert "</script" not in text
    page = next(path for path in (site / "v" / "SKL").glob("script*"))
    assert "the ports &lt;do&gt; not add up" in page.read_text(encoding="utf-8")


def test_every_link_leads_to_a_file(site: Path) -> None:
    import re  # noqa: PLC0415 - only here

    for path in some(site.rglob("*.html")):
        for link in some(re.findall(r'(?:href|src)="([^"#]+)"', path.read_text(encoding="utf-8"))):
            assert (path.parent / link).resolve().is_file(), (path, link)


@pytest.mark.parametrize("most", [1, 10, 1000])
def test_links_lead_from_the_first_page_to_every_page_of_a_variant(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MOST_VARIANTS", most)
    folder = tmp_path / "site"
    build_site(Site(entries()), folder, jobs=1)
    reached, left = set[Path](), [folder / "index.html"]
    while left:
        page = left.pop()
        links = re.findall(r'<a href="([^"#]+)', page.read_text("utf-8"))
        new = {(page.parent / link).resolve() for link in links} - reached
        # From one page of a variant to that on another architecture is no way from the first page
        left += [path for path in new if path.parent.parent != folder / "v"]
        reached |= new
    pages_of_variants = set((folder / "v").rglob("*.html"))
    assert len(pages_of_variants) == 128 * 2 + 1
    assert pages_of_variants <= reached


@given(
    st.lists(st.tuples(st.sampled_from(["BASE", "AVX", "A/B", "a b"]), st.sampled_from("ABCDEFGH")), max_size=60),
    st.integers(1, 12),
)
def test_lists_have_every_variant_once_in_order(chosen: list[tuple[str, str]], most: int) -> None:
    given_entries = [
        Entry(dataclasses.replace(variant(mnemonic), extension=extension, string=str(number)), {})
        for number, (extension, mnemonic) in enumerate(chosen)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "MOST_VARIANTS", most)
        found = list_pages(given_entries)
    shown = [(page.extension, name) for page in found for name, of in page.mnemonics.items() for _ in of]
    assert shown == sorted((one.variant.extension, one.variant.iclass) for one in given_entries)
    assert len({page.name for page in found}) == len(found)
    assert len({page.title for page in found}) == len(found)
    sizes = [[len(of) for of in page.mnemonics.values()] for page in found]
    assert all(len(size) == 1 or sum(size) <= most for size in sizes)


def test_the_page_of_an_architecture_says_ports_coverage_and_failures(tmp_path: Path) -> None:
    skipped = {"SKL": {"this CPU does not have AMX": 7}}
    build_site(Site(entries(), (SKL,), skipped=skipped), tmp_path / "site", jobs=1)
    text = (tmp_path / "site" / "arch" / "SKL.html").read_text(encoding="utf-8")
    for expected in (
        '<td>p06</td><td>129</td><td><a href="../v/SKL/opaa-r64-r64.html">OPAA (R64, R64)</a></td><td>0.50</td>',
        "129 of 130 instruction variants have results",
        "<td>AVX</td><td>64</td><td>64</td>",
        "<td>7</td><td>this CPU does not have AMX</td>",
        "sums &lt;do&gt; differ",
    ):
        assert expected in text
    assert "does not have AMX" not in (tmp_path / "site" / "arch" / "HSW.html").read_text(encoding="utf-8")


def test_the_page_about_memory_shows_every_case_and_is_linked(tmp_path: Path) -> None:
    provenance = dataclasses.replace(REPORT.provenance, architecture="SKL")
    hostile = dataclasses.replace(REPORT, provenance=provenance, problems=("<script>",))
    elsewhere = dataclasses.replace(REPORT, provenance=dataclasses.replace(provenance, architecture="../../x"))
    few = entries()[:3]
    count = build_site(Site(few, memories=(hostile, elsewhere)), tmp_path / "site", jobs=1)
    assert count == build_site(Site(few), tmp_path / "other", jobs=1) + 1
    only_memory = Site(few, memories=(REPORT,))
    assert build_site(only_memory, tmp_path / "third", jobs=1) == count
    name = REPORT.provenance.architecture
    assert name not in few[0].results
    assert f'<a href="memory/{name}.html">' in (tmp_path / "third" / "index.html").read_text()
    page = (tmp_path / "site" / "memory" / "SKL.html").read_text()
    for text in ("13.0 cycles more", '<td class="case-renamed">', "-7 to -1: 19.0! failed", "&lt;script&gt;"):
        assert text in page
    assert "Loads and stores" not in page
    times = dataclasses.replace(
        hostile,
        times=(Time("load latency", (("load", "MOV"),), Fraction(9, 2)),),
        levels=(MeasuredLevel(32768, Fraction(4)),),
    )
    with_times = memory.page(times, ["SKL"])
    for text in ("<td>load MOV</td><td>4.50</td>", "<td>4.0</td><td>32</td>"):
        assert text in with_times
    assert 'href="../memory/SKL.html"' in (tmp_path / "site" / "arch" / "SKL.html").read_text()
    assert "memory/" not in (tmp_path / "site" / "arch" / "HSW.html").read_text()


def test_failures_for_the_same_reason_are_counted_together() -> None:
    found = [
        (Entry(variant(name), {}), dataclasses.replace(result("SKL"), failures=(Stated(reason, text),)))
        for name, reason, text in (("A", "a fault", "at 9"), ("B", "off", "1.50 is off by 2.5"), ("C", "off", "3 is"))
    ]
    assert views.failures(found) == [
        views.FailureCount("off", 2, "B (R64, R64)"),
        views.FailureCount("a fault", 1, "A (R64, R64)"),
    ]


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".x", "x" * 99, "SKL\n"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    hostile = Entry(variant("A"), {name: result(name)})
    with pytest.raises(DatabaseError, match="is no name of an architecture"):
        build_site(Site((hostile,)), tmp_path / "site", jobs=1)
    assert list(tmp_path.iterdir()) == []


def test_a_site_replaces_only_a_site(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me", encoding="utf-8")
    with pytest.raises(DatabaseError, match="is no site"):
        build_site(Site(entries()), tmp_path, jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(DatabaseError, match="nothing to show"):
        build_site(Site(()), tmp_path / "empty", jobs=1)
    assert build_site(Site(entries()[:3]), tmp_path / "site", jobs=1) == build_site(
        Site(entries()[:3]), tmp_path / "site", jobs=1
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "site"]


def test_a_site_that_cannot_be_written_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _text: str) -> None:
        raise OSError(28, "No space left on device")  # as the file system says it: without a name

    monkeypatch.setattr(build, "_page", full)
    with pytest.raises(OutputError, match=r"site: the site cannot be written: No space left on device"):
        build_site(Site(entries()), tmp_path / "site", jobs=1)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/site: the site cannot be written: "):
        build_site(Site(entries()), tmp_path / "file" / "site", jobs=1)


def test_file_names_are_unique_and_plain() -> None:
    names = views.slugs(["A (B)", "a b", "A_B!", "ÄÖ"])
    assert list(names.values()) == ["a-b", "a-b-2", "a-b-3", "x"]


@pytest.mark.parametrize(
    ("registers", "expected"),
    [
        (["XMM0", "XMM1", "XMM2"], ["XMM0-XMM2"]),
        (["RAX", "RCX", "R8", "R9"], ["RAX", "RCX", "R8-R9"]),
        (["K1", "K3"], ["K1", "K3"]),
        ([], []),
    ],
)
def test_runs_of_registers_are_written_as_one(registers: list[str], expected: list[str]) -> None:
    assert views.collapse(registers) == expected


def test_port_loads_add_up_to_the_uops() -> None:
    bars = views.port_bars(PortUsage.parse("1*p06+1*p0156"), "0156")
    assert [(bar.port, bar.load, bar.share) for bar in bars] == [
        ("p0", "0.75", 100),
        ("p1", "0.25", 33),
        ("p5", "0.25", 33),
        ("p6", "0.75", 100),
    ]


def test_the_page_of_a_comparison_groups_and_escapes() -> None:
    from results.database.diff import Change, ChangeKind, group  # noqa: PLC0415 - only here

    changes = [Change(ChangeKind.CHANGED, f"<{n}>", "I86", "SKL", "uops", "1", "2") for n in range(3)]
    changes.append(Change(ChangeKind.ONLY_NEW, "W", "I86", "SKL", "", "", ""))
    text = pages.diff_page("old.xml", "new.xml", group(changes))
    assert "3 changes in 1 groups" in text
    assert "Only in new.xml: 1 results" in text
    assert "Only in old.xml" not in text
    assert "&lt;0&gt;" in text


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    yield from browsing(tmp_path_factory.mktemp("profile"))


def find(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element("css selector", selector)


def rows(browser: Chrome) -> list[list[str]]:
    script = "return [...document.querySelectorAll('#table tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    return [list(map(str, row)) for row in browser.execute_script(script)]


@needs_browser
def test_search_filter_sort_follow_a_link_and_back(site: Path, browser: Chrome) -> None:
    browser.get((site / "index.html").as_uri())
    assert find(browser, "#count").text == "257 of 257 results"
    names = [row[0] for row in rows(browser)]
    assert names == sorted(names)
    assert rows(browser)[0][2] == "SKL (simulated)"
    find(browser, "#search").send_keys("opab r64")
    assert [row[2] for row in rows(browser)] == ["HSW", "SKL"]
    find(browser, "#search").clear()
    find(browser, "#ports").send_keys("p5")
    assert find(browser, "#count").text == "64 of 257 results"
    assert browser.current_url.endswith("#ports=p5")
    find(browser, "#extension option[value=AVX], #extension").send_keys("AVX")
    assert find(browser, "#count").text == "32 of 257 results"
    find(browser, "button[type=reset]").click()
    find(browser, "#architecture").send_keys("SKL")
    find(browser, "[data-sort=latency]").click()
    find(browser, "[data-sort=latency]").click()
    assert find(browser, "th[aria-sort]").get_attribute("aria-sort") == "descending"
    find(browser, "#table tbody a").click()
    assert "on SKL" in browser.title
    browser.back()
    assert find(browser, "h1").text.startswith("Latency")


def campaign(path: Path, variant: InstructionVariant) -> Path:
    """Write a campaign with one variant and one experiment."""
    benchmark = StoredBenchmark("b1", "throughput of <OPAA>", 1, (), ((b"\x48\x11\xc3", "ADC RBX, RAX"),) * 2)
    samples = {"core_cycles": (7, 9, 7), "uops": (4, 5, 4)}
    measured = Measurement(Status.OK, (Series(10, 0, samples), Series(110, 3, {"core_cycles": (1,) * 9})))
    derivation = Derivation("TP_unrolled", (Text("9 cycles / 10"),), ("b1",))
    with Store.open(path) as store:
        store.begin(SKL)
        store.add([Sample("b1:cycles:unrolled", benchmark, measured)])
        result = Characterization(variant.key, variant.string, variant.iform, uops=1, derivations=(derivation,))
        store.conclude(result, ["b1:cycles:unrolled"], "0")
    return path


@needs_browser
def test_an_address_holds_filters_and_ports_have_any_name(tmp_path: Path, browser: Chrome) -> None:
    usages = {"ADD": "1*p06", "MUL": "1*FP01+1*p5", "SHL": "1*r0234"}
    found = tuple(Entry(variant(name), {"ZEN4": result("ZEN4", ports)}) for name, ports in usages.items())
    clock = ArchitectureResult("ZEN4", {"TP_loop": "1.00"}, ())
    build_site(Site(found), tmp_path / "site", jobs=1)
    index = (tmp_path / "site" / "index.html").as_uri()
    for ports, expected in (("60", "ADD"), ("P06", "ADD"), ("fp10", "MUL"), ("2*p5", "MUL"), ("r4320", "SHL")):
        browser.get("about:blank")
        browser.get(f"{index}#ports={ports}")
        assert [row[0].split()[0] for row in rows(browser)] == [expected]
    assert find(browser, "#uops").is_displayed()
    build_site(Site((Entry(variant("ADD"), {"ZEN4": clock}),)), tmp_path / "clock", jobs=1)
    browser.get((tmp_path / "clock" / "index.html").as_uri())
    assert find(browser, "#count").text == "1 of 1 results"
    assert not find(browser, "#uops").is_displayed()
    assert not find(browser, "#ports").is_displayed()


@needs_browser
def test_the_experiments_behind_a_page(tmp_path: Path, browser: Chrome) -> None:
    found = entries()
    with_experiments = campaign(tmp_path / "x.sqlite", found[1].variant)
    build_site(Site(found, (SKL,), (with_experiments,)), tmp_path / "site", jobs=1)
    assert [path.name for path in (tmp_path / "site" / "e").rglob("*.js")] == ["0.js"]
    browser.get((tmp_path / "site" / "v" / "SKL" / "opab-r64-r64.html").as_uri())
    find(browser, "#experiments summary").click()
    script = "setTimeout(() => arguments[0](document.querySelector('#experiments div').textContent), 500)"
    for _ in range(60):
        shown = str(browser.execute_async_script(script))
        if shown:
            break
    for expected in (
        "TP_unrolled: 9 cycles / 10",
        "throughput of <OPAA>",
        "cycles, unrolled: ok",
        "4811c3                   ADC RBX, RAX\n4811c3",
        "core_cycles with 10 copies: 3 samples, least 7, median 7, greatest 9",
        "uops (sorted) with 10 copies: 3 samples, least 4, median 4, greatest 5",
        "core_cycles with 110 copies in 3 iterations: 9 samples, least 1, median 1, greatest 1",
    ):
        assert expected in shown
    heights = "return [...document.querySelectorAll('.samples')].map(s => [...s.children].map(c => c.cy.baseVal.value))"
    assert browser.execute_script(heights) == [[26, 4, 26], [26, 26, 4]]


@given(st.lists(st.integers(-(10**12), 10**12), max_size=80))
def test_samples_are_packed_without_loss(samples: list[int]) -> None:
    found = experiments.packed(samples)
    if found and isinstance(found[0], list):
        values = list(accumulate(found[0]))
        found = [values[experiments.ALPHABET.index(letter)] for letter in str(found[1])]
    assert found == samples


def test_the_browser_has_the_alphabet_of_the_packer() -> None:
    text = (Path(experiments.__file__).parent / "assets" / "experiments.js").read_text(encoding="utf-8")
    assert f'"{experiments.ALPHABET}"' in text


@needs_browser
def test_what_one_architecture_does_not_tell_is_no_difference(tmp_path: Path, browser: Chrome) -> None:
    silent = ArchitectureResult("ZEN4", {"TP_unrolled": "0.50", "TP_loop": "0.55"}, result("SKL").latencies)
    slower = dataclasses.replace(silent, measurement={"TP_unrolled": "1.00"})
    found = [Entry(variant(name), {"SKL": result("SKL"), "ZEN4": one}) for name, one in (("A", silent), ("B", slower))]
    build_site(Site(tuple(found)), tmp_path / "site", jobs=1)
    browser.get((tmp_path / "site" / "compare.html").as_uri())
    assert [row[0] for row in rows(browser)] == ["B (R64, R64)"]
    assert [row[3:5] for row in rows(browser)] == [["0.50", "1.00"]]


@needs_browser
def test_ports_found_by_time_are_compared_by_their_number_only(tmp_path: Path, browser: Chrome) -> None:
    pairs = {
        "A": ("1*r0123+2*FP01", "2*FP01+1*r2456"),
        "B": ("1*r01", "1*r012"),
        "C": ("1*p06", "1*p05"),
        "D": ("1*r8A", "1*p23"),
    }
    found = [
        Entry(variant(name), {"ZEN3": result("ZEN3", one), "ZEN4": result("ZEN4", other)})
        for name, (one, other) in pairs.items()
    ]
    build_site(Site(tuple(found)), tmp_path / "site", jobs=1)
    browser.get((tmp_path / "site" / "compare.html").as_uri())
    assert [row[0] for row in rows(browser)] == ["B (R64, R64)", "C (R64, R64)"]


@needs_browser
@pytest.mark.parametrize("page", ["index.html", "compare.html"])
def test_without_scripts_nothing_is_shown_that_needs_them(page: str, site: Path, browser: Chrome) -> None:
    def shown() -> list[bool]:
        browser.get((site / page).as_uri())
        return [find(browser, name).is_displayed() for name in ("h1", "#filters", "#previous")]

    assert shown() == [True, True, True]
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        assert shown() == [True, False, False]
        if page == "index.html":
            find(browser, "#lists + ul a").click()
            assert find(browser, "nav[aria-label=Lists]").is_displayed()
            find(browser, ".list a").click()
            assert "OP" in find(browser, "h1").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@needs_browser
def test_an_upper_bound_differs_only_from_a_larger_latency(tmp_path: Path, browser: Chrome) -> None:
    def bounded(name: str, cycles: int) -> ArchitectureResult:
        rows = (LatencyRow(1, 2, {"cycles": str(cycles), "cycles_is_upper_bound": "1"}),)
        return dataclasses.replace(result(name), latencies=rows)

    def exact(name: str, cycles: int) -> ArchitectureResult:
        return dataclasses.replace(result(name), latencies=(LatencyRow(1, 2, {"cycles": str(cycles)}),))

    pairs = {
        "A": (bounded("SKL", 9), exact("ZEN4", 10)),
        "B": (bounded("SKL", 10), exact("ZEN4", 9)),
        "C": (bounded("SKL", 9), bounded("ZEN4", 10)),
        "D": (exact("SKL", 11), bounded("ZEN4", 10)),
        "E": (exact("SKL", 3), exact("ZEN4", 4)),
    }
    found = [Entry(variant(name), {"SKL": one, "ZEN4": other}) for name, (one, other) in pairs.items()]
    build_site(Site(tuple(found)), tmp_path / "site", jobs=1)
    browser.get((tmp_path / "site" / "compare.html").as_uri())
    assert [row[0][0] for row in rows(browser)] == ["A", "D", "E"]


@needs_browser
@pytest.mark.parametrize("page", ["compare.html", "v/ZEN3/a-r64-r64.html"])
def test_what_no_architecture_knows_has_no_column(page: str, tmp_path: Path, browser: Chrome) -> None:
    slow, fast = ({"TP_unrolled": cycles, "TP_loop": cycles} for cycles in ("2.00", "1.00"))
    results = {
        name: dataclasses.replace(result(name), measurement=values) for name, values in (("ZEN3", slow), ("ZEN4", fast))
    }
    known = {name: result(name, cycles=number) for number, name in enumerate(("ZEN3", "ZEN4"))}
    for at, found in (("without", results), ("with", known)):
        build_site(Site((Entry(variant("A"), found),)), tmp_path / at, jobs=1)
        browser.get((tmp_path / at / page).as_uri())
        shown = [one.text for one in browser.find_elements("css selector", "table:last-of-type thead th")]
        assert ("Ports" in shown, "µops" in shown) == (at == "with", at == "with")
        assert "Throughput" in shown


def test_a_latency_names_the_only_register_that_an_operand_can_be() -> None:
    one = variant("DIV")
    operands = (dataclasses.replace(one.operands[0], registers=("RAX",)), *one.operands[1:])
    entry = Entry(dataclasses.replace(one, operands=operands), {"SKL": result("SKL")})
    matrix = views.latency_matrix(entry, entry.results["SKL"])
    assert matrix is not None
    assert [row[0] for row in matrix.rows] == ["1 (RAX)", "2 (REG1)"]


@needs_browser
def test_the_address_of_a_comparison_holds_what_is_compared(site: Path, browser: Chrome) -> None:
    browser.get((site / "compare.html").as_uri())
    find(browser, "#search").send_keys("OPAB")
    find(browser, "#what").send_keys("all")
    count, address = find(browser, "#count").text, browser.current_url
    browser.get((site / "index.html").as_uri())
    browser.get(address)
    assert find(browser, "#count").text == count
    assert count.startswith("1 variants")


@needs_browser
def test_the_comparison_of_two_architectures(site: Path, browser: Chrome) -> None:
    browser.get((site / "compare.html").as_uri())
    assert find(browser, "#count").text.startswith("64 variants")
    find(browser, "#what").send_keys("all")
    assert find(browser, "#count").text.startswith("128 variants")


@needs_browser
@pytest.mark.parametrize(
    "page", ["index.html", "compare.html", "list/base.html", "arch/SKL.html", "v/SKL/opab-r64-r64.html"]
)
@pytest.mark.parametrize("dark", [False, True])
def test_axe_has_no_serious_finding(site: Path, browser: Chrome, page: str, *, dark: bool) -> None:
    axe = pytest.importorskip("axe_core_python")
    script = (Path(str(axe.__file__)).parent / "axe.min.js").read_text(encoding="utf-8")
    media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.get((site / page).as_uri())
    browser.execute_script(script)
    found = browser.execute_async_script("axe.run().then(arguments[0])")
    serious = [one for one in faults(found["violations"]) if one["impact"] in ("serious", "critical")]
    assert found["passes"]
    assert not serious, json.dumps(serious, indent=1)[:2000]


@needs_browser
def test_a_phone_needs_no_sideways_scrolling(site: Path, browser: Chrome) -> None:
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for page in ("index.html", "list/base.html", "arch/SKL.html", "v/SKL/opab-r64-r64.html"):
        browser.get((site / page).as_uri())
        width = browser.execute_script("return document.documentElement.scrollWidth")
        assert width <= 390, page
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
