"""Renders pages from jinja2 templates, for all packages."""

from __future__ import annotations

from functools import cache

import jinja2


@cache
def templates(package: str) -> jinja2.Environment:
    """Return the templates of a package (`results.site`); everything that they print is escaped.

    A name that is not given is an error when the page is rendered.
    """
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
