"""The `instructions` for a model: which servers there are, in the operator's words and in their own.

Law: a server's own instructions are untrusted text: attributed to it, on one line, and bounded.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.config.settings import Expose

# Characters: of the operator's part, of each server's instructions, and of the whole text.
_OURS: Final = 2_000
_EACH: Final = 400
_ALL: Final = 4_000

HOW_TO_FIND: Final = (
    "Most tools are not listed. Find them with search_tools, read their parameters with describe_tools, and call them "
    "with call_tool."
)
_MORE: Final = "More of what a server says: list_servers with its name."
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)|[。！？]")


class ServerView(Protocol):
    """The servers that an agent may know of (`views.View`)."""

    def might_use(self, server: ServerConfig) -> bool: ...

    def expose(self, frontend: Expose) -> Expose: ...


def instructions_at_start(config: Config, view: ServerView | None) -> str:
    """Return the text for a host over stdio while nothing is known of the servers. Without policies, `view` is None."""
    servers = [server for server in config.servers if server.enabled and (view is None or view.might_use(server))]
    expose = config.stdio.expose or config.expose
    return instructions(servers, {}, short=(expose if view is None else view.expose(expose)) in ("search", "code"))


def instructions(servers: Sequence[ServerConfig], said: Mapping[str, str], *, short: bool) -> str:
    """Return the text. `said` holds the servers' own instructions by id; `short`: not every tool is listed."""
    lines = [HOW_TO_FIND] if short else []
    if any(server.prefix for server in servers) or not servers:
        lines.append("Tools of several servers, each named after its server:")
    lines += [f"- {_name(s)}: {s.description}" if s.description != s.key else f"- {_name(s)}" for s in servers]
    text = "\n".join(lines)
    if len(text) > _OURS:
        text = text[: _OURS - 1] + "…"
    own = [(server, said[server.id]) for server in servers if server.instructions and said.get(server.id, "").strip()]
    added = ["What these servers say of themselves:"]
    cut = False
    for server, words in own:
        one = brief(words)
        cut = cut or one != _plain(words)
        line = f"- {_name(server)}: {one}"
        if len(text) + sum(map(len, added)) + len(added) + len(line) + len(_MORE) + 2 > _ALL:
            cut = True
            continue
        added.append(line)
    if len(added) > 1:
        text = "\n".join([text, *added])
    return f"{text}\n{_MORE}" if cut and short else text


def brief(words: str, most: int = _EACH) -> str:
    """Return as many whole sentences as fit in `most` characters, on one line; else the first words."""
    plain = _plain(words)
    if len(plain) <= most:
        return plain
    ends = [found.end() for found in _SENTENCE_END.finditer(plain, 0, most + 1) if found.end() <= most]
    if ends:
        return plain[: ends[-1]]
    return plain[:most].rpartition(" ")[0] + "…" if " " in plain[:most] else plain[: most - 1] + "…"


def _plain(words: str) -> str:
    """Return a text on one line, without invisible characters."""
    return "".join(char for char in " ".join(words.split()) if char.isprintable())


def _name(server: ServerConfig) -> str:
    return server.prefix or server.id
