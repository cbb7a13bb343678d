"""The `instructions` for a model: which servers there are, in the operator's words and in their own.

Law: a server's own instructions are untrusted text: attributed to it, on one line, and bounded. The same servers give
the same bytes, whether they are there or away: prompt caches hold. Only a server that never started here gets a line of
its own.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from aggregator.config.model import Config
from aggregator.config.server_config import LeftOutEntry, ServerConfig
from aggregator.config.settings import Expose
from aggregator.gateway.views.first_steps import first_steps
from aggregator.gateway.views.start_faults import DOCTOR, fault_sentence, left_out_sentence, missing_programs
from aggregator.upstream.lifecycle.states import State

# Tokens of the whole text, as `domain.text.tokens` estimates them, which every session of a model pays. With a short
# list `list_servers` has the rest; names cost an eighth more in cl100k than estimated, so that 130 are at most 150.
MOST_TOKENS: Final = 300
MOST_TOKENS_SHORT: Final = 130
# Characters of each server's own words and of its description, from the richest text to the shortest that is tried.
_OWN: Final = (400, 200, 100)
_DESCRIPTION: Final = 200
_DESCRIPTION_SHORT: Final = 60
# With more servers than this only names fit, and what else they say need not be tried.
_MANY: Final = 60
# Characters read of a server's description of itself.
_READ: Final = 4_000

HOW_TO_FIND: Final = (
    "Most tools are not listed. Find them with search_tools, read their parameters with describe_tools, and call them "
    "with call_tool."
)
_SEVERAL: Final = "Tools of several servers, each named after its server:"
_NOTHING: Final = "No tools are allowed here: there is no server that you may use. The operator can allow some."
_OFF_NAMED: Final = 3
_ABOUT_EACH: Final = "What each is for: list_servers."
_MORE: Final = "More of what a server says: list_servers with its name."
_NO_FAULTS: Final[Mapping[str, str]] = {}
_GROUP: Final = re.compile("[-_]")
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)|[。！？]")


class DescribedServer(NamedTuple):
    """A server in the instructions: its name, the operator's text and its own, on one line each."""

    name: str
    description: str
    own: str


class KnownServer(Protocol):
    """A server that an agent may know of (`finder.ServerSeen`)."""

    @property
    def config(self) -> ServerConfig: ...
    @property
    def state(self) -> State: ...
    @property
    def instructions(self) -> str: ...
    @property
    def start_fault(self) -> str: ...


class ServerView(Protocol):
    """The servers that an agent may know of (`views.View`)."""

    def might_use(self, server: ServerConfig) -> bool: ...

    def might_use_entry(self, name: str) -> bool: ...

    def expose(self, frontend: Expose) -> Expose: ...


def instructions_at_start(config: Config, view: ServerView | None) -> str:
    """Return the text for a host over stdio before the servers have answered. Without policies, `view` is None."""
    if not config.servers and not config.left_out:
        return first_steps(at_machine=True)
    servers = [server for server in config.servers if server.enabled and (view is None or view.might_use(server))]
    expose = config.stdio.expose or config.expose
    short = (expose if view is None else view.expose(expose)) in ("search", "code")
    off = [_name(one) for one in config.servers if not one.enabled and (view is None or view.might_use(one))]
    left_out = [one for one in config.left_out if view is None or view.might_use_entry(one.name)]
    return instructions(servers, {}, short=short, faults=missing_programs(servers), off=off, left_out=left_out)


def instructions_about(
    servers: Sequence[KnownServer], *, short: bool, off: Sequence[str] = (), left_out: Sequence[LeftOutEntry] = ()
) -> str:
    """Return the text about servers that an agent may know of. off, left_out: see `no_servers`."""
    said = {server.config.id: server.instructions for server in servers}
    # A host may ask before its servers have been tried.
    untried = missing_programs(server.config for server in servers if server.state == "starting")
    faults = untried | {server.config.id: fault for server in servers if (fault := server.start_fault)}
    configs = [server.config for server in servers]
    return instructions(configs, said, short=short, faults=faults, off=off, left_out=left_out)


def no_servers(off: Sequence[str], left_out: Sequence[LeftOutEntry]) -> str:
    """Return the sentences for an agent that may know of no server.

    off: the names of the servers that it could use if they were switched on; left_out: the entries that it could use if
    they were right.
    """
    wrong = left_out_sentence(left_out)
    if not off:
        return wrong or _NOTHING
    more = f" and {len(off) - _OFF_NAMED} more" if len(off) > _OFF_NAMED else ""
    are = "are" if len(off) > 1 else "is"
    switched = f"No tools are here: {', '.join(off[:_OFF_NAMED])}{more} {are} switched off; {DOCTOR}, which says why."
    return f"{switched} {wrong}".rstrip()


def instructions(
    servers: Sequence[ServerConfig],
    said: Mapping[str, str],
    *,
    short: bool,
    faults: Mapping[str, str] = _NO_FAULTS,
    off: Sequence[str] = (),
    left_out: Sequence[LeftOutEntry] = (),
) -> str:
    """Return the text. `said` holds the servers' own instructions by id; `short`: not every tool is listed.

    `faults` holds by id why servers do not start here; `off`, `left_out`: see `no_servers`.

    It takes at most `MOST_TOKENS`, or `MOST_TOKENS_SHORT` if short: the servers' own words get shorter first, then
    descriptions are left out, the last server's first, then names. It depends on the configuration and on `said` only.
    """
    if not servers:
        return "\n".join([*([HOW_TO_FIND] if short else []), no_servers(off, left_out)])
    told = tuple(
        DescribedServer(
            _name(server),
            server.description if server.description != server.key else "",
            _plain(said.get(server.id, "")) if server.instructions else "",
        )
        for server in servers
    )
    silent = fault_sentence([(_name(server), faults[server.id]) for server in servers if server.id in faults])
    amiss = "\n".join(filter(None, (silent, left_out_sentence(left_out))))
    return _text(told, any(server.prefix for server in servers), short, amiss)


@lru_cache(maxsize=64)
def _text(servers: tuple[DescribedServer, ...], named: bool, short: bool, amiss: str) -> str:
    budget = MOST_TOKENS_SHORT if short else MOST_TOKENS
    head = [*([HOW_TO_FIND] if short else []), *([amiss] if amiss else []), *([_SEVERAL] if named else [])]
    if len(servers) <= _MANY:
        described = [*head, *(_described(server, _DESCRIPTION) for server in servers)]
        for most in _OWN:
            text = "\n".join([*described, *_own_words(servers, most, short)])
            if _fits(text, budget):
                return text
    names = [server.name for server in servers]

    def shown(described: int, named: int) -> str:
        rest = _grouped(names[described:named]) if named < len(names) else names[described:]
        more = [f"and {len(names) - named} more"] if named < len(names) else []
        about = f". {_ABOUT_EACH}" if short else ""
        last = [f"{'Also' if described else 'Servers'}: {', '.join([*rest, *more])}{about}"] if rest or more else []
        return "\n".join([*head, *(_described(server, _DESCRIPTION_SHORT) for server in servers[:described]), *last])

    # No name takes less than a token.
    named_count = _most(lambda count: shown(0, count), min(len(names), budget), budget)
    if named_count < len(names):
        return shown(0, named_count)
    return shown(_most(lambda count: shown(count, len(names)), len(names), budget), len(names))


def _most(text: Callable[[int], str], highest: int, budget: int) -> int:
    """Return the highest number for which a text is within the budget."""
    return bisect_right(range(1, highest + 1), False, key=lambda count: not _fits(text(count), budget))


def _fits(text: str, budget: int) -> bool:
    # More than `estimate` could say. Its module and tables are slow to import: no start waits for them.
    rare = sum(char.isupper() or char.isdigit() or not (char.isalnum() or char.isspace()) for char in text)
    if text.isascii() and 1.3 * len(text.split()) + len(text) / 5 + rare <= budget:
        return True
    from aggregator.domain.text.tokens import estimate

    return estimate(text) <= budget


def _grouped(names: Sequence[str]) -> list[str]:
    """Return the names, those that begin alike as `aws-{network, cloudwatch}`."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_GROUP.split(name, maxsplit=1)[0], []).append(name)
    shown: list[str] = []
    for members in groups.values():
        first, last = min(members), max(members)
        same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
        common = first[:same]
        start = max(common.rfind("-"), common.rfind("_")) + 1
        rests = [name[start:] for name in members]
        shown += [f"{common[:start]}{{{', '.join(rests)}}}"] if start and len(rests) > 1 and all(rests) else members
    return shown


def _own_words(servers: Sequence[DescribedServer], most: int, short: bool) -> list[str]:
    """Return the lines of what servers say of themselves, each in at most `most` characters."""
    own = [server for server in servers if server.own]
    if not own:
        return []
    said = [brief(server.own, most) for server in own]
    cut = any(words != server.own for words, server in zip(said, own, strict=True))
    lines = [f"- {server.name}: {words}" for words, server in zip(said, own, strict=True)]
    return ["What these servers say of themselves:", *lines, *([_MORE] if short and cut else [])]


def _described(server: DescribedServer, most: int) -> str:
    return f"- {server.name}: {brief(server.description, most)}" if server.description else f"- {server.name}"


def brief(words: str, most: int = _OWN[0]) -> str:
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
    line = " ".join(words[:_READ].split())
    return line if line.isprintable() else "".join(filter(str.isprintable, line))


def _name(server: ServerConfig) -> str:
    return server.prefix or server.id
