"""Build, check, compare, search and export databases of results (instructions.xml)."""

from __future__ import annotations

import typer

from runner.cli.database.build import build
from runner.cli.database.check import check
from runner.cli.database.compare import compare_with_published
from runner.cli.database.diff import diff
from runner.cli.database.export import with_options_of_exporters
from runner.cli.database.query import query

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

app.command()(build)
app.command()(check)
app.command()(diff)
app.command("compare")(compare_with_published)
app.command()(query)
app.command()(with_options_of_exporters())
