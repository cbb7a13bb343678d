"""The pages of the console as a browser takes them apart: every element and attribute, and whether each is one of ours.

What others wrote is text in our pages. Were it more, it would bring an element, an attribute or an address that none of
our templates has.
"""

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx2

_VOID: Final = re.compile("area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")
_DRAWN: Final = re.compile("svg|g|path|rect|circle|pattern|line|polyline|polygon|title|use|symbol|defs|text|tspan|desc")
_OURS: Final = re.compile(
    f"{_DRAWN.pattern}|html|head|meta|link|script|body|header|nav|main|aside|section|article|footer|div|span|p|a|b|i|em"
    "|strong|small|code|pre|kbd|samp|bdi|bdo|ul|ol|li|dl|dt|dd|table|caption|thead|tbody|tfoot|tr|th|td|h[1-4]|form"
    "|fieldset|legend|label|input|textarea|select|option|optgroup|button|details|summary|time|blockquote|output|mark"
    "|ins|del|abbr|hr|br|wbr|datalist|meter|progress|dialog|audio|template|search|colgroup|col"
)
_ATTRIBUTE: Final = re.compile(
    r"aria-[a-z]+|data-[a-z-]+|(hx-(get|post|target|swap|trigger|push-url|ext|select|indicator|sync|swap-oob|include))"
    r"|sse-(connect|swap|close)|[a-z]+"
)
_ADDRESS: Final = re.compile("href|src|action|formaction|hx-get|hx-post|sse-connect|xlink:href|poster|data|ping")
_NEVER: Final = re.compile("on.*|style|srcdoc|srcset|background|manifest|http-equiv|nonce|integrity|download")


@dataclass
class PageReader(HTMLParser):
    """One page. `problems` are what must not be in it; `links` and `assets` are addresses, `forms` those of POSTs."""

    base: str
    outside: str = ""
    problems: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    assets: list[str] = field(default_factory=list)
    forms: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._ids: Counter[str] = Counter()

    def read(self, html: str) -> "PageReader":
        """Read a whole page."""
        self.feed(html)
        self.close()
        if self._open:
            self.problems.append(f"not closed: {self._open}")
        self.problems += [f"id {name} is there {count} times" for name, count in self._ids.items() if count > 1]
        return self

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not _OURS.fullmatch(tag):
            self.problems.append(f"element {tag}")
        given = {name: value or "" for name, value in attrs}
        for name, value in given.items():
            self._attribute(tag, name, value)
        if "id" in given:
            self._ids[given["id"]] += 1
        if tag == "script" and not given.get("src", "").startswith(f"{self.base}/static/"):
            self.problems.append(f"script of {given}")
        if tag == "form" and given.get("method", "get").lower() == "post":
            self.forms.append((given.get("action", ""), {}))
        if tag == "input" and self.forms and given.get("type") == "hidden":
            self.forms[-1][1][given.get("name", "")] = given.get("value", "")
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "hx-get" in given:
            self.links.append(given["hx-get"])
        if tag in ("script", "link", "img", "audio") and (asset := given.get("src") or given.get("href")):
            self.assets.append(asset)
        if tag == "option" and self._open and self._open[-1] == "option":
            self._open.pop()
        if not _VOID.fullmatch(tag):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if not _VOID.fullmatch(tag):
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        # The one element of ours whose end may be left out.
        while tag != "option" and self._open and self._open[-1] == "option":
            self._open.pop()
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing, at line {self.getpos()[0]}")

    def handle_comment(self, data: str) -> None:
        self.problems.append(f"comment {data[:80]!r}")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style") and data.strip():
            self.problems.append(f"text in {self._open[-1]}: {data[:80]!r}")

    def _attribute(self, tag: str, name: str, value: str) -> None:
        drawn = _DRAWN.fullmatch(tag) is not None
        if _NEVER.fullmatch(name) or not (drawn or _ATTRIBUTE.fullmatch(name)):
            self.problems.append(f"attribute {name} of {tag}")
        if _ADDRESS.fullmatch(name) and not self._is_ours(value):
            self.problems.append(f"address {value[:120]!r} of {tag}")
        if name == "hx-trigger" and ("[" in value or "js:" in value):
            self.problems.append(f"a script in {name} of {tag}")

    def _is_ours(self, address: str) -> bool:
        """Return whether an address is one below the console, of this page, or that of the trace system."""
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            return bool(self.outside) and address.startswith(self.outside)
        return not parts.path or parts.path == self.base or parts.path.startswith(f"{self.base}/")


@dataclass(frozen=True, slots=True)
class Fetched:
    """One answer, with where the link to it was found."""

    path: str
    status: int
    kind: str
    text: str
    found_on: str


async def crawl(
    client: httpx2.AsyncClient, start: str = "/console/health", each: int = 6, outside: str = ""
) -> tuple[list[Fetched], list[str]]:
    """Follow every link from one page on, at most `each` of one shape, also as JSON; return the answers and problems.

    The shape of an address is its path up to the second segment, and the names in its query.
    """
    fetched: list[Fetched] = []
    problems: list[str] = []
    seen: set[str] = set()
    shapes: Counter[str] = Counter()
    ahead = deque([(start, "")])
    while ahead:
        path, found_on = ahead.popleft()
        parts = urlsplit(path)
        segments = parts.path.removeprefix("/console").split("/")
        shape = (
            f"{'/'.join(segments[:2])} {len(segments)} {segments[3:]} {sorted(re.findall(r'([a-z]+)=', parts.query))}"
        )
        if path in seen or shapes[shape] >= each or "/static/" in path or parts.scheme:
            continue
        seen.add(path)
        shapes[shape] += 1
        whole = f"{parts.path}{'?' * bool(parts.query)}{parts.query}"
        answer = await client.get(whole, follow_redirects=True)
        kind = answer.headers.get("content-type", "")
        fetched.append(Fetched(whole, answer.status_code, kind, answer.text, found_on))
        if kind.startswith("text/html"):
            page = PageReader("/console", outside).read(answer.text)
            problems += [f"{whole}: {problem}" for problem in page.problems]
            ahead += [
                (urljoin(whole, link), whole) for link in page.links if urljoin(whole, link).startswith("/console")
            ]
            data = parts.path.rstrip("/")
            as_json = f"{'/console/overview' if data == '/console' else data}.json"
            ahead.append((f"{as_json}{'?' * bool(parts.query)}{parts.query}", whole))
    return fetched, problems


def words(html: str) -> str:
    """Return what a person reads on a page below its navigation, on one line."""
    main = re.sub(r"<(script|style|svg)\b.*?</\1>", "", html.partition("<main")[2].partition(">")[2], flags=re.DOTALL)
    # The name of a server stands apart from that of its tool by its colour alone.
    marked = re.sub(r'<span class="server">(.*?)</span>', r"\1\0", main)
    return re.sub(" ?\0 ?", "", " ".join(unescape(re.sub(r"<[^>]+>", " ", marked)).split()))
