"""HTML of the pages for connecting."""

from collections.abc import Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

_MOST: Final = 400


class ConnectRenderer:
    """The templates of the pages; `version` is the version of the static files."""

    def __init__(self, version: str) -> None:
        self._templates = Environment(
            loader=PackageLoader("aggregator.accounts.connect"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["shown"] = shown
        self._templates.globals["static"] = version

    def page(self, template: str, base: str, given: Mapping[str, Any], status: int = 200) -> Response:
        """Return a page. base: the prefix of our paths in the browser."""
        text = self._templates.get_template(template).render({"base": base, **given})
        return HTMLResponse(text.encode("utf-8", "replace"), status)


def shown(text: str) -> str:
    """Return a text of others without characters that change how what stands around it looks, and bounded."""
    plain = "".join(char if char.isprintable() else " " for char in str(text))
    return plain if len(plain) <= _MOST else f"{plain[:_MOST]}..."
