"""A browser whose person agrees to everything: it follows redirects, and goes on at every page that offers to."""

import ssl
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx2

_STEPS: Final = 12
_BOUND: Final = 20.0
_REDIRECTS: Final = range(301, 309)


class _Page(HTMLParser):
    """The way on from a page: its form with what is filled in already, or the address that it leads to by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.refresh: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form" and found.get("method", "").lower() == "post" and self.action is None:
            self.action = found.get("action", "")
        elif tag == "input" and self.action is not None and "name" in found:
            self.fields[found["name"]] = found.get("value", "")
        elif tag == "meta" and found.get("http-equiv", "").lower() == "refresh":
            self.refresh = found.get("content", "").partition("url=")[2] or None


async def agree_at(url: str) -> str:
    """Open an address and go on to the end; return the text of the last page."""
    no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with httpx2.AsyncClient(timeout=_BOUND, trust_env=False, verify=no_tls) as client:
        response = await client.get(url)
        for _ in range(_STEPS):
            here = str(response.url)
            if response.status_code in _REDIRECTS:
                response = await client.get(urljoin(here, response.headers["location"]))
                continue
            page = _Page(response.text)
            if page.refresh is not None:
                response = await client.get(urljoin(here, page.refresh))
            elif page.action is not None:
                parts = urlsplit(here)
                origin = {"origin": f"{parts.scheme}://{parts.netloc}"}
                response = await client.post(urljoin(here, page.action), data=page.fields, headers=origin)
            else:
                return response.text
    raise AssertionError(f"{url} leads on for ever")
