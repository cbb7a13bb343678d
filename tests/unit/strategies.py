"""Hypothesis strategies: JSON as peers send it, names as upstreams give them, servers as configurations hold them."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from aggregator.config.server_config import ServerConfig, ServerType
from aggregator.config.server_parts import ToolsConfig
from aggregator.upstream.list_kinds import Kind
from aggregator.upstream.upstream import Upstream

# Any code point a JSON text can hold: lone surrogates too, which real servers do emit.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
CLEAN_TEXT = st.text(max_size=12)

# Two short alphabets make collisions likely; the rest is what the spec does not allow and servers send anyway.
TOOL_NAMES = st.one_of(
    st.text("ab_.", min_size=1, max_size=6),
    st.text("a_-.:/ é地\x00", min_size=1, max_size=8),
    st.text("abcdefgh_", min_size=30, max_size=150),
    st.text(min_size=1, max_size=20),
)
# What the config lets through as a prefix.
PREFIXES = st.one_of(st.text("ab_", min_size=1, max_size=5), st.text("aB1_-", min_size=1, max_size=60)).filter(
    lambda text: any(c.isalnum() for c in text)
)


def json_values(texts: st.SearchStrategy[str] = ANY_TEXT, *, leaves: int = 12) -> st.SearchStrategy[Any]:
    """Any JSON value; numbers are finite, and integers of any size."""
    scalars = (
        st.none()
        | st.booleans()
        | st.integers(-(10**30), 10**30)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=leaves,
    )


def server(
    name: str = "srv", kind: ServerType = "stdio", tools: ToolsConfig | None = None, **more: Any
) -> ServerConfig:
    """A server as the config would hold it; `prefix` is its name unless given."""
    fields: dict[str, Any] = {"id": name, "key": name, "prefix": name, "type": kind, **more}
    return ServerConfig(**fields, tools=tools or ToolsConfig())


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A definition with nothing wrong in it."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """Return `data` in pieces, cut at `places` (modulo its length; an equal place twice makes an empty piece)."""
    at = sorted(place % (len(data) + 1) for place in places)
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


class SilentObserver:
    """An `UpstreamObserver` that ignores what upstreams report."""

    def changed(self) -> None:
        """Ignore a change."""

    async def examine(self, upstream: Upstream, kind: Kind, items: list[Any]) -> None:
        """Let a list take effect as it came."""

    def resource_updated(self, upstream: Upstream, watched: list[str], uri: str) -> None:
        """Ignore an update."""

    def session_over(self, server: str, version: str, seconds: float, failure: str | None) -> None:
        """Ignore the end of a session."""
