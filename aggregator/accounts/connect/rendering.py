"""HTML of the pages for connecting, and the headers that keep other pages and foreign text out."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from aggregator.frontends.web.host_guard import Send

# Nothing is loaded from elsewhere, nothing runs, no other page may show ours (CSP Level 3). A form leads to a page of
# ours, and that one on to the issuer: `form-action` would have to name every address on the way there otherwise.
_POLICY: Final = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    # Other sites learn nothing of our address. Without any referrer a browser would hide from us the origin of a form.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-robots-tag", b"noindex, nofollow"),
)
_NOT_KEPT: Final = (b"cache-control", b"no-store")
_KEPT: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_HTML: Final = b"text/html; charset=utf-8"
_MOST: Final = 400


@dataclass(frozen=True, slots=True)
class ConnectAnswer:
    """A whole response."""

    status: int
    body: bytes
    kind: bytes = _HTML
    headers: tuple[tuple[bytes, bytes], ...] = ()
    kept: bool = False

    async def send(self, send: Send, *, head: bool = False) -> None:
        """Send it; `head`: leave the body out."""
        length = (b"content-length", b"%d" % len(self.body))
        about = [length, _KEPT if self.kept else _NOT_KEPT, *([(b"content-type", self.kind)] if self.body else [])]
        lines = [*_HEADERS, *about, *self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": lines})
        await send({"type": "http.response.body", "body": b"" if head else self.body})


class ConnectRenderer:
    """The templates of the pages, and their style sheet under a path that changes with it."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader("aggregator.accounts.connect"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["shown"] = shown
        self._style = files("aggregator.accounts.connect").joinpath("static", "connect.css").read_bytes()
        self.style_name = f"style-{sha256(self._style).hexdigest()[:12]}.css"

    def page(
        self, template: str, base: str, given: Mapping[str, Any], status: int = 200, *headers: tuple[bytes, bytes]
    ) -> ConnectAnswer:
        """Return a page. base: the prefix of our paths in the browser."""
        around = {"base": base, "style": self.style_name}
        text = self._templates.get_template(template).render({**around, **given})
        return ConnectAnswer(status, text.encode("utf-8", "replace"), headers=headers)

    def style(self) -> ConnectAnswer:
        """Return the style sheet."""
        return ConnectAnswer(200, self._style, b"text/css; charset=utf-8", kept=True)


def shown(text: str) -> str:
    """Return a text of others without characters that change how what stands around it looks, and bounded."""
    plain = "".join(char if char.isprintable() else " " for char in str(text))
    return plain if len(plain) <= _MOST else f"{plain[:_MOST]}..."
