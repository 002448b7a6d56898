"""Make static pages of results, and show them in a browser."""

from __future__ import annotations

import functools
import http.server
import os
import socketserver
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from results.campaign.packed import is_campaign
from results.campaign.store import Store
from results.database.memory_section import read_memories
from results.database.reader import read_database, read_provenances
from results.memory.documents import read_document
from results.shipped import shipped_campaigns, shipped_database, shipped_memories
from results.site.build import MARK, Site, build_site
from xed_convert.errors import UopscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.database.reader import Entry
    from results.model import Provenance

app = typer.Typer(help=__doc__, add_completion=False)


class SiteError(UopscopeError):
    """The site cannot be shown."""

    exit_code = 3


class SeveralFilesError(SiteError):
    """A site is made of one instructions.xml: the input is wrong, not the machine."""

    exit_code = 2


@app.command()
def site(
    databases: Annotated[
        list[Path] | None,
        typer.Argument(help="An instructions.xml, and campaigns (.sqlite) whose experiments the pages show."),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write.")] = Path("site"),
    jobs: Annotated[int, typer.Option(min=1, help="How many processes, at most one per CPU.")] = os.cpu_count() or 1,
    serve: Annotated[bool, typer.Option("--serve", help="Show it at http://localhost:PORT/ until Ctrl-C.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port for --serve.")] = 8000,
) -> None:
    """Make static pages of databases (of the shipped one if none is named); they need no server."""
    if databases or not (serve and (output / MARK).exists()):
        _build(databases, output, jobs)
    if serve:
        _serve(output, port)


def _build(named: list[Path] | None, output: Path, jobs: int) -> None:
    databases = named or [shipped_database()]
    campaigns = tuple(path for path in databases if is_campaign(path))
    entries, provenances = _contents([path for path in databases if path not in campaigns], campaigns)
    memories = tuple(one for path in databases if path not in campaigns for one in read_memories(path))
    if not named:
        memories += tuple(map(read_document, shipped_memories()))
    skipped = _skipped(campaigns if named else shipped_campaigns())
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeRemainingColumn(), transient=True) as progress:
        task = progress.add_task("pages", total=len(entries))
        count = build_site(
            Site(tuple(entries), tuple(provenances), campaigns, skipped, memories),
            output,
            jobs,
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    print(f"{output / 'index.html'}: {count} pages")


def _skipped(campaigns: Sequence[Path]) -> dict[str, Counter[str]]:
    """Count why campaigns did not measure variants, for each architecture."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in campaigns:
        with Store.read(path) as store:
            for conclusion in store.conclusions():
                if conclusion.result.skipped:
                    found[conclusion.provenance.architecture][conclusion.result.skipped] += 1
    return found


def _contents(databases: list[Path], campaigns: tuple[Path, ...]) -> tuple[list[Entry], list[Provenance]]:
    """Return the entries of the one XML file, or of the campaigns if there is none."""
    if len(databases) > 1:
        raise SeveralFilesError("more than one instructions.xml", hint="uopscope db build puts campaigns together")
    if databases:
        return list(read_database(databases[0])), read_provenances(databases[0])
    from results.database.merge import Campaigns, Merge  # noqa: PLC0415 - only for campaigns
    from xed_convert.catalogue.catalogue import Catalogue  # noqa: PLC0415 - only for campaigns

    with Campaigns(campaigns) as opened:
        return list(Merge(Catalogue.load(), opened.lookup).entries()), opened.provenances()


def _serve(folder: Path, port: int) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    socketserver.TCPServer.allow_reuse_address = True
    try:
        server = socketserver.TCPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise SiteError(f"port {port}: {error.strerror}", hint="take another one with --port") from error
    with server:
        print(f"http://localhost:{port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()
