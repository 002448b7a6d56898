"""Renders the pages: one function per kind of page, from views to HTML text by jinja2."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

import jinja2

from results.database.diff import Kind
from results.model import Form, PortUsage
from results.site import views

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from results.database.diff import Group
    from results.database.reader import ArchitectureResult, Entry
    from results.model import Provenance
    from results.site.experiments import Place

SHOWN_ELSEWHERE = {"uops", "simulated", *(f"ports{form.suffix}" for form in Form)}
"""Attributes of a measurement that have a place of their own on the page."""


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Return the templates of this package; everything that they print is escaped."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("results.site", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: object) -> str:
    """Render one template."""
    return environment().get_template(template).render(**values)


def index_page(architectures: Sequence[str], notes: Sequence[str]) -> str:
    """Return the page with the table of everything."""
    return render("index.html.j2", root="", architectures=architectures, notes=notes)


def compare_page(architectures: Sequence[str], models: Container[str]) -> str:
    """Return the page that compares two architectures, those that are `models` named as such."""
    labels = {name: f"{name} (a model)" if name in models else name for name in architectures}
    return render("compare.html.j2", root="", architectures=architectures, labels=labels)


def variant_page(
    entry: Entry, architecture: str, names: Mapping[str, str], architectures: Sequence[str], experiments: Place | None
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
        ports=views.ports_text(values),
        throughputs=views.throughput_views(values),
        others=[(name, value) for name, value in sorted(values.items()) if _is_other(name)],
        bars=_bars(values),
        matrix=views.latency_matrix(entry, result),
        operands=views.operand_views(entry),
        beside=[_summary(entry, one, names) for one in entry.results.values()],
        experiments=experiments,
    )


def _is_other(name: str) -> bool:
    return name not in SHOWN_ELSEWHERE and not name.startswith("TP_")


def _bars(values: Mapping[str, str]) -> list[views.PortBar]:
    if "ports" not in values:
        return []
    usage = PortUsage.parse(values["ports"])
    return views.port_bars(usage, {port for ports in usage.uops for port in ports})


def _summary(entry: Entry, result: ArchitectureResult, names: Mapping[str, str]) -> views.Summary:
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
        provenances=[_provenance_view(one) for one in provenances if one.architecture == name],
        port_sets=views.port_sets(found),
        has_memory=coverage.has_memory,
        covered=len(found),
        total=sum(coverage.catalogue.values()),
        extensions=[(one, measured[one], count) for one, count in sorted(coverage.catalogue.items())],
        failures=views.failures(found),
        skipped=sorted(coverage.skipped.items(), key=lambda item: (-item[1], item[0])),
        page=lambda string: "../" + page_of(name, names[string]),
    )


def _provenance_view(provenance: Provenance) -> dict[str, object]:
    terms = ("cpu", "cpu_signature", "microcode", "kernel", "time", "version")
    return {
        "is_model": provenance.is_model,
        "backend": provenance.backend,
        "caveats": provenance.caveats,
        "terms": [(term.replace("_", " "), getattr(provenance, term)) for term in terms if getattr(provenance, term)],
    }


def diff_page(old: str, new: str, groups: Sequence[Group]) -> str:
    """Return a page of its own, with no other file, about what changed between two databases."""
    real = [one for one in groups if one.kind is not Kind.NOISE]
    return render(
        "diff.html.j2",
        old=old,
        new=new,
        groups=real,
        changes=sum(len(one.strings) for one in real),
        noise=sum(len(one.strings) for one in groups if one.kind is Kind.NOISE),
        style=resources.files("results.site").joinpath("assets/style.css").read_text(encoding="utf-8"),
    )
