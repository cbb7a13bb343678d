"""HTML from templates. Everything is escaped; templates are rendered on threads, away from calls."""

import asyncio
import gzip
from collections.abc import Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from aggregator import __version__
from aggregator.frontends.console.present import FILTERS
from aggregator.frontends.console.view import ConsoleRequest, PageView, SignedIn
from aggregator.frontends.web.page_responses import PACKED

# Pages by their first path segment, in the order of the navigation; those marked are under "More" on a phone.
NAVIGATION: Final = (
    ("", "Overview", False),
    ("calls", "Calls", False),
    ("approvals", "Approvals", False),
    ("tools", "Tools", False),
    ("servers", "Servers", True),
    ("pins", "Pins", True),
    ("connections", "Connections", True),
    ("policies", "Policies", True),
    ("health", "Health", True),
)


class Renderer:
    """The templates of the console; `version` is the version of the static files."""

    def __init__(self, version: str) -> None:
        self._templates = Environment(
            loader=PackageLoader("aggregator.frontends.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= FILTERS
        self._templates.globals |= {"static": version, "program_version": __version__, "navigation": NAVIGATION}

    async def page(self, view: PageView, request: ConsoleRequest, csrf: str, waiting: int, packed: bool) -> Response:
        """Return a whole page. `waiting` calls wait for confirmation; `packed`: the browser accepts gzip."""
        given = {**_common(request, csrf), "title": view.title, "waiting": waiting}
        return await asyncio.to_thread(self._html, view.template, {**view.data, **given}, view.status, packed)

    async def fragment(self, view: PageView, request: ConsoleRequest, csrf: str, packed: bool) -> Response:
        """Return one part of a page."""
        template = view.fragment or view.template
        given = {**view.data, **_common(request, csrf), "title": view.title}
        return await asyncio.to_thread(self._html, template, given, view.status, packed)

    def part(self, template: str, given: Mapping[str, Any]) -> str:
        """Return a part that stands in many pages; to be called on a thread."""
        return self._templates.get_template(template).render(given)

    def failure(
        self,
        status: int,
        said: str,
        base: str,
        person: SignedIn | None,
        see: Mapping[str, str] | None = None,
        title: str = "Not possible",
    ) -> Response:
        """Return an error page; `see` are pages with more details."""
        given = {"base": base, "person": person, "said": said, "csrf": "", "section": None, "see": see or {}}
        return self._html("failure.html", {**given, "title": title, "waiting": 0}, status, False)

    def sign_in(self, template: str, given: Mapping[str, Any], base: str, status: int = 200) -> Response:
        """Return a page for a user who is not signed in."""
        around = {"base": base, "person": None, "csrf": "", "waiting": 0, "title": "Sign in", "section": None}
        return self._html(template, {**around, **given}, status, False)

    def bounce(self, target: str) -> Response:
        """Return a page that goes on to `target`, this time from our own address, so that the cookie comes along."""
        return self._html("bounce.html", {"target": target}, 200, False)

    def departure(self, target: str) -> Response:
        """Return a page that goes on to an issuer; a form may lead to pages of ours only."""
        if not target.startswith(("https://", "http://")):
            raise ValueError("the address of an issuer is no web address")
        return self._html("departure.html", {"target": target}, 200, False)

    def _html(self, template: str, given: Mapping[str, Any], status: int, packed: bool) -> Response:
        body = self._templates.get_template(template).render(given).encode("utf-8", "replace")
        if not packed:
            return HTMLResponse(body, status)
        return HTMLResponse(gzip.compress(body, 5, mtime=0), status, PACKED)


def _common(request: ConsoleRequest, csrf: str) -> dict[str, Any]:
    return {"base": request.base, "person": request.person, "csrf": csrf, "section": request.section}
