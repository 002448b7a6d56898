"""Renders the pages: one function per kind of page, from views to HTML text by jinja2."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from importlib import resources
from itertools import groupby
from typing import TYPE_CHECKING

from results.database.diff import ChangeKind, only_in_one
from results.html import templates
from results.model import Form, PortUsage, is_by_time
from results.site import views
from results.site.attributes import described

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from results.database.diff import Group
    from results.database.reader import ArchitectureResult, Entry
    from results.model import Provenance
    from results.site.experiments import ExperimentsPlace
    from results.site.lists import ListPage

SHOWN_ELSEWHERE = {
    "uops",
    "simulated",
    "ports_by_time",
    "some_ports_by_time",
    *(f"ports{form.suffix}" for form in Form),
}
"""Attributes of a measurement that have a place of their own on the page."""


def render(template: str, **values: object) -> str:
    """Render one template."""
    return templates("results.site").get_template(template).render(**values)


@dataclass(frozen=True, slots=True)
class Card:
    """What the first page says of an architecture.

    - `sources` are sentences about where its numbers come from.
    - `results` counts the variants with results, `with_ports` those whose port usage is known.
    - `by_time`: some of these port usages were inferred by time alone.
    - `has_memory`: there is a page about its memory.
    """

    name: str
    sources: tuple[str, ...]
    results: int
    with_ports: int
    by_time: bool
    has_memory: bool


def index_page(
    architectures: Sequence[str], cards: Sequence[Card], lists: Iterable[ListPage], *, shows_experiments: bool
) -> str:
    """Return the page with the table of everything, a card for each architecture, and links to the lists."""
    return render(
        "index.html.j2",
        root="",
        architectures=architectures,
        cards=cards,
        lists=[(extension, list(pages)) for extension, pages in groupby(lists, lambda one: one.extension)],
        shows_experiments=shows_experiments,
    )


def list_page(number: int, lists: Sequence[ListPage], names: Mapping[str, str], architectures: Sequence[str]) -> str:
    """Return a page that lists variants, one of all lists; `names` are file names of variants by string."""
    return render(
        "list.html.j2",
        root="../",
        architectures=architectures,
        page=lists[number],
        before=lists[number - 1] if number else None,
        after=lists[number + 1] if number + 1 < len(lists) else None,
        page_of=lambda architecture, entry: page_of(architecture, names[entry.variant.string]),
    )


def cards(
    architectures: Sequence[str],
    entries: Sequence[Entry],
    provenances: Iterable[Provenance],
    memories: Mapping[str, Provenance],
) -> list[Card]:
    """Return the cards of all architectures that have results, or a page about memory."""
    where: dict[str, dict[str, None]] = {}
    for one in (*provenances, *(memories[name] for name in memories if name not in architectures)):
        where.setdefault(one.architecture, {})[_source(one)] = None
    found = {
        name: [entry.results[name].measurement or {} for entry in entries if name in entry.results]
        for name in architectures
    }
    return [
        Card(
            name,
            tuple(where.get(name, ())),
            len(found.get(name, ())),
            sum("ports" in values or values.get("uops") == "0" for values in found.get(name, ())),
            any("ports_by_time" in values for values in found.get(name, ())),
            name in memories,
        )
        for name in sorted({*architectures, *memories})
    ]


def _source(one: Provenance) -> str:
    how = "A machine model, simulated" if one.is_model else "Measured"
    return f"{how}: {one.cpu}, backend {one.backend}, {one.time[:10]}"


def compare_page(architectures: Sequence[str], models: Container[str]) -> str:
    """Return the page that compares two architectures, those that are `models` named as such."""
    labels = {name: f"{name} (a model)" if name in models else name for name in architectures}
    return render("compare.html.j2", root="", architectures=architectures, labels=labels)


def variant_page(
    entry: Entry,
    architecture: str,
    names: Mapping[str, str],
    architectures: Sequence[str],
    experiments: ExperimentsPlace | None,
) -> str:
    """Return the page of a variant on an architecture.

    Args:
        entry: the variant with all its results.
        architecture: which of them the page is about.
        names: file names of variants by string.
        architectures: all architectures of the site.
        experiments: where the experiments behind the numbers are, if they are known.
    """
    result = entry.results[architecture]
    values = result.measurement or {}
    return render(
        "variant.html.j2",
        root="../../",
        architectures=architectures,
        entry=entry,
        result=result,
        values=values,
        simulated=values.get("simulated") == "1",
        ports=views.ports_text(result),
        headline=views.headline(result),
        by_time="1" in {values.get("ports_by_time"), values.get("some_ports_by_time")},
        made_up_names=any(map(is_by_time, _ports_of(values))),
        throughputs=views.throughput_views(values),
        others=[described(name, value) for name, value in sorted(values.items()) if _is_other(name)],
        bars=_bars(values),
        matrix=views.latency_matrix(entry, result),
        operands=views.operand_views(entry),
        beside=[_summary(entry, one, names) for one in entry.results.values()],
        experiments=experiments,
    )


def _is_other(name: str) -> bool:
    return name not in SHOWN_ELSEWHERE and not name.startswith(("TP_", "rhythms_"))


def _ports_of(values: Mapping[str, str]) -> set[str]:
    """Return the ports of a usage, or of the µops that are certain."""
    text = values.get("ports") or values.get("some_ports", "")
    return {port for ports in PortUsage.parse(text).uops for port in ports} if text else set()


def _bars(values: Mapping[str, str]) -> list[views.PortBar]:
    if "ports" not in values:
        return []
    usage = PortUsage.parse(values["ports"])
    return views.port_bars(usage, {port for ports in usage.uops for port in ports})


def _summary(entry: Entry, result: ArchitectureResult, names: Mapping[str, str]) -> views.ArchitectureSummary:
    return views.summary(result, page_of(result.architecture, names[entry.variant.string]))


def page_of(architecture: str, name: str) -> str:
    """Return the path of a variant's page within the site."""
    return f"v/{architecture}/{name}.html"


@dataclass(frozen=True, slots=True)
class Coverage:
    """What an architecture's page says besides its results: variants of the catalogue by extension, and skipped ones.

    `skipped` counts variants that were not measured by the reason why. `has_memory`: there is a page about memory.
    """

    catalogue: Mapping[str, int]
    skipped: Mapping[str, int]
    has_memory: bool = False


def architecture_page(
    name: str,
    names: Mapping[str, str],
    architectures: Sequence[str],
    entries: Iterable[Entry],
    provenances: Iterable[Provenance],
    coverage: Coverage,
) -> str:
    """Return the page of an architecture: where it comes from, its ports and what blocks them, coverage, failures.

    Args:
        name: the architecture.
        names: file names of variants by string.
        architectures: all architectures of the site.
        entries: those with results.
        provenances: where results come from.
        coverage: what was to be measured.
    """
    found = [(entry, entry.results[name]) for entry in entries if name in entry.results]
    measured = Counter(entry.variant.extension for entry, _ in found)
    return render(
        "architecture.html.j2",
        root="../",
        architectures=architectures,
        name=name,
        provenances=_provenance_views([one for one in provenances if one.architecture == name]),
        port_sets=views.port_sets(found),
        by_time=any("ports_by_time" in (result.measurement or {}) for _, result in found),
        has_memory=coverage.has_memory,
        covered=len(found),
        total=sum(coverage.catalogue.values()),
        extensions=[(one, measured[one], count) for one, count in sorted(coverage.catalogue.items())],
        failures=views.failures(found),
        skipped=sorted(coverage.skipped.items(), key=lambda item: (-item[1], item[0])),
        page=lambda string: "../" + page_of(name, names[string]),
    )


def _provenance_views(provenances: Iterable[Provenance]) -> list[dict[str, object]]:
    """Return what is said of where results come from; campaigns that differ in their time only are one."""
    found: list[tuple[Provenance, list[str]]] = []
    for one in provenances:
        times = next((times for seen, times in found if replace(one, time=seen.time) == seen), None)
        if times is None:
            found.append((one, [one.time]))
        else:
            times.append(one.time)
    return [_provenance_view(one, times) for one, times in found]


def _provenance_view(one: Provenance, times: Iterable[str]) -> dict[str, object]:
    terms = ("cpu", "cpu_signature", "microcode", "kernel", "version")
    known = [(term.replace("_", " "), getattr(one, term)) for term in terms if getattr(one, term)]
    return {
        "is_model": one.is_model,
        "backend": one.backend,
        "caveats": one.caveats,
        "terms": [*known, ("time", ", ".join(times))],
    }


def diff_page(old: str, new: str, groups: Sequence[Group]) -> str:
    """Return a page of its own, with no other file, about what changed between two databases."""
    real = [one for one in groups if one.kind.is_change]
    return render(
        "diff.html.j2",
        old=old,
        new=new,
        groups=real,
        changes=sum(len(one.strings) for one in real),
        noise=sum(len(one.strings) for one in groups if one.kind is ChangeKind.NOISE),
        only_old=only_in_one(groups, ChangeKind.ONLY_OLD),
        only_new=only_in_one(groups, ChangeKind.ONLY_NEW),
        style=resources.files("results.site").joinpath("assets/style.css").read_text(encoding="utf-8"),
    )
