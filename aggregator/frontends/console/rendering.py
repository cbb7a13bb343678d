"""HTML from templates, and values as pages show them: times, durations, sizes, and text that a host or server wrote.

Everything is escaped; templates are rendered on threads, away from calls.
"""

import asyncio
import gzip
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from aggregator import __version__
from aggregator.frontends.console.tool_data import cut_at
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
# A longer text is cut, with a count.
SHOWN: Final = 2_000
# As the audit names a line of a policy file, with its folder or without.
_PLACE: Final = re.compile(r"(?:[^/\\]*[/\\])?([^/\\]{1,200}\.ya?ml):(\d{1,7})")
_UNSEEN_KINDS: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Co", "Cs", "Cn"})
_PLAIN: Final = re.compile(r"[\n\t -~\xa1-\xac\xae-\u024f\u4e00-\u9fff\u3000-\u303f\u3040-\u30ff\uac00-\ud7a3]*")
# More marks upon one letter than any language needs.
_MOST_MARKS: Final = 4
_LETTER_WORD: Final = re.compile(r"[^\W\d_]{2,}")


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


def shown(value: object, most: int = SHOWN) -> Markup:
    """Return a text of a host or server as HTML: every character that cannot be seen is a chip, as `U+202E`.

    It stands in `<bdi>`, so that its direction changes nothing around it. A text a little longer than `most` is whole.
    """
    text = str(value)
    cut = text[: cut_at(text, most)]
    body = escape(cut) if _PLAIN.fullmatch(cut) else Markup("").join(_pieces(cut))
    more = len(text) - len(cut)
    rest = Markup('<span class="cut">{:,} more characters</span>').format(more) if more > 0 else Markup("")
    return Markup("<bdi>{}</bdi>{}").format(body, rest)


def _pieces(text: str) -> list[Markup]:
    """Return a text in pieces of HTML."""
    found: list[Markup] = []
    plain: list[str] = []
    marks = 0

    def flush() -> None:
        if plain:
            found.append(_with_mixed_words("".join(plain)))
            plain.clear()

    for char in text:
        kind = unicodedata.category(char)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if (kind in _UNSEEN_KINDS and char not in "\n\t") or marks > _MOST_MARKS:
            flush()
            name = unicodedata.name(char, "")
            found.append(Markup('<span class="esc" title="{}">U+{}</span>').format(name.lower(), f"{ord(char):04X}"))
        else:
            plain.append(char)
    flush()
    return found


def _with_mixed_words(text: str) -> Markup:
    """Return HTML in which words of more than one script are marked: they may pass for another word."""
    parts: list[Markup] = []
    at = 0
    for word in _LETTER_WORD.finditer(text):
        if word[0].isascii() or not _is_mixed(word[0]):
            continue
        parts.append(escape(text[at : word.start()]))
        parts.append(Markup('<span class="mixed" title="letters of more than one script">{}</span>').format(word[0]))
        at = word.end()
    parts.append(escape(text[at:]))
    return Markup("").join(parts)


def _is_mixed(word: str) -> bool:
    scripts = {script for char in islice(word, 64) if (script := _script(char)) is not None}
    return bool(scripts & {"LATIN"}) and bool(scripts & {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})


def _script(char: str) -> str | None:
    name = unicodedata.name(char, "")
    return name.partition(" ")[0] if name else None


def duration(seconds: float | None) -> str:
    """Return a duration for display: `20 µs`, `5.8 ms`, `412 ms`, `42.1 s`, `6 min`, `3 h`, `2 d`."""
    if seconds is None:
        return "-"
    micro = seconds * 1e6
    if micro < 99.5:
        return f"{micro:.0f} µs"
    if seconds < 0.0995:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    for unit, length in (("min", 60), ("h", 3600), ("d", 86400)):
        if seconds < 100 * length or unit == "d":
            return f"{seconds / length:.0f} {unit}"
    raise AssertionError("days are last")


def size(count: float | None) -> str:
    """Return a number of bytes: `276 B`, `1.4 kB`, `3.2 MB`."""
    if count is None:
        return "-"
    for unit, power in (("B", 0), ("kB", 1), ("MB", 2), ("GB", 3)):
        if count < 1000 ** (power + 1) or unit == "GB":
            number = count / 1000**power
            return f"{number:.0f} {unit}" if power == 0 or number >= 99.5 else f"{number:.1f} {unit}"
    raise AssertionError("GB is last")


def number(count: float | None) -> str:
    """Return a whole number with a comma at each thousand."""
    return "-" if count is None else f"{count:,.0f}"


def clock(at: float | None) -> str:
    """Return the local time of day: `14:32:07`."""
    return "-" if at is None else datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")


def moment(at: float | None) -> str:
    """Return the local date and time: `2026-11-22 14:32:07`."""
    return "-" if at is None else datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def iso(at: float) -> str:
    """Return a time for programs, in UTC: the value of `datetime` in `<time>`."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def policy_file(source: str) -> str | None:
    """Return the path of the page for `FILE:LINE` of a policy file, below the console's; None for anything else."""
    found = _PLACE.fullmatch(source)
    return f"/policies/files/{quote(found[1], safe='')}?line={found[2]}#L{found[2]}" if found is not None else None


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return `1 call`, `2 calls`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


FILTERS: Final[dict[str, Any]] = {
    "shown": shown,
    "duration": duration,
    "size": size,
    "number": number,
    "clock": clock,
    "moment": moment,
    "iso": iso,
    "plural": plural,
    "policy_file": policy_file,
}
