"""The difference of two configurations: servers added, removed and changed, settings applied and held back.

Law: this file decides; it reads and starts nothing, and no text it builds holds a value.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import HealthConfig, ToolsConfig
from aggregator.domain.problems import Problem

# Options of a server that take effect on its open connection; a change of any other replaces the connection.
IN_PLACE: Final = frozenset(
    {"key", "prefix", "description", "trigger_keywords", "instructions", "attribution", "trusted", "coerce"}
    | {"trust", "on_change", "on_change.accept", "on_new", "output_validation", "timeout", "fallbacks"}
    | {f"tools.{name}" for name in ToolsConfig.model_fields}
    | {f"health.{name}" for name in HealthConfig.model_fields}
    | {"limits.max_timeout", "limits.timeout_resets_on_progress", "limits.connect_timeout", "limits.idle_timeout"}
    | {"limits.grace", "limits.reconnect_wait", "limits.max_pending"}
)
# Settings outside `mcpServers` that take effect at once; all others wait for the next start.
AT_ONCE: Final = frozenset(
    {"expose", "expose_budget", "pinned", "name_limit", "startup_wait", "straggler_wait", "shutdown_timeout"}
    | {"shutdown_delay"}
    | {"http.expose", "sse.expose", "stdio.expose", "search.semantic", "audit.capture", "audit.max_captured_bytes"}
    | {"redact.patterns", "redact.fields", "redact.also", "log.level", "log.levels", "notify", "registry"}
    | {"results.max_tokens", "results.direct", "results.keep", "results.max_bytes"}
    | {"secrets.commands", "secrets.timeout", "auth.issuers", "auth.scopes"}
)

Fields = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """The changes from one configuration to another. Servers are named by id, settings and options as `section.name`.

    `config` is the configuration to put into force. `replaced` servers need another connection, `amended` ones do not:
    by id, the options that changed. `applied` settings take effect, `kept_back` ones keep the value that they had.
    `left_out`: other entries than before cannot be used.
    """

    config: Config
    added: tuple[str, ...]
    removed: tuple[str, ...]
    replaced: Mapping[str, Fields]
    amended: Mapping[str, Fields]
    applied: Fields
    kept_back: Fields
    reordered: bool
    left_out: bool

    def __bool__(self) -> bool:
        """Return whether anything changes that is in force."""
        servers = self.added or self.removed or self.replaced or self.amended or self.reordered or self.left_out
        return bool(servers or self.applied)

    def lines(self) -> Iterator[str]:
        """Yield sentences for the log; none about `kept_back`."""
        yield from (f"server {server} is added" for server in self.added)
        yield from (f"server {server} is removed: it ends once its calls have" for server in self.removed)
        for server, fields in self.replaced.items():
            yield f"server {server} is connected anew ({', '.join(fields)})"
        for server, fields in self.amended.items():
            yield f"server {server} has other settings ({', '.join(fields)}) on the same connection"
        if self.applied:
            yield f"in effect: {', '.join(self.applied)}"
        if self.left_out:
            yield "other entries are left out than before"
        if self.reordered:
            yield "the servers are in another order"

    def details(self) -> dict[str, Any]:
        """Return the changes for the audit: names only, no values."""
        found: dict[str, Any] = {
            "added": list(self.added),
            "removed": list(self.removed),
            "replaced": {server: list(fields) for server, fields in self.replaced.items()},
            "amended": {server: list(fields) for server, fields in self.amended.items()},
            "applied": list(self.applied),
            "kept_back": list(self.kept_back),
        }
        return {name: value for name, value in found.items() if value}


def difference(old: Config, new: Config) -> ConfigChanges:
    """Return the changes from `old`, which is in force, to `new`."""
    before = {server.id: server for server in old.servers}
    after = {server.id: server for server in new.servers}
    both = [name for name in after if name in before]
    changed = {name: fields for name in both if (fields := tuple(_options(before[name], after[name])))}
    settings = [name for name in _options(old, new) if name != "servers"]
    kept_back = tuple(name for name in settings if name not in AT_ONCE)
    return ConfigChanges(
        config=_holding_back(old, new, kept_back),
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        replaced={name: fields for name, fields in changed.items() if not IN_PLACE.issuperset(fields)},
        amended={name: fields for name, fields in changed.items() if IN_PLACE.issuperset(fields)},
        applied=tuple(name for name in settings if name in AT_ONCE),
        kept_back=kept_back,
        reordered=both != [name for name in before if name in after],
        left_out=old.left_out != new.left_out,
    )


def forbidding(
    old: Config, new: Config, before: Iterable[Problem], now: Iterable[Problem], file: str
) -> tuple[Problem, ...]:
    """Return the problems that keep `new` from coming into force; `before` and `now` are those of the two files.

    An error that was there before holds up nothing else. A server in use is never switched off because a variable or
    a file that its entry names is missing.
    """
    known = {(problem.where, problem.message) for problem in before if problem.severity == "error"}
    errors = [p for p in now if p.severity == "error" and (p.where, p.message) not in known]
    in_use = {server.id for server in old.servers if server.enabled}
    lost = (server for server in new.servers if server.id in in_use and server.disabled_reason)
    return (*errors, *(_lost(server, file) for server in lost))


def emptied(old: Config, before: int, now: int, file: str) -> Problem | None:
    """Return a problem if a file lists no servers any more while some are in use: most likely it is damaged.

    `before` and `now` count the entries of the two files.
    """
    if not before or now or not any(server.enabled for server in old.servers):
        return None
    said = "The file lists no servers any more, and some are in use."
    fix = (
        'Put them back under "mcpServers", or switch each off with `enabled: false`; a restart takes the file as it is.'
    )
    return Problem(file, "mcpServers", said, fix, "error")


def _lost(server: ServerConfig, file: str) -> Problem:
    said = f"{server.disabled_reason} The server is in use."
    fix = "Provide it, or switch the server off with `enabled: false`."
    return Problem(file, server.id, said, fix, "error", server.id)


def _changed(one: BaseModel, other: BaseModel) -> Fields:
    if one == other:
        return ()
    return tuple(
        name for name in type(one).model_fields if name != "entry" and getattr(one, name) != getattr(other, name)
    )


def _options(old: BaseModel, new: BaseModel) -> Iterator[str]:
    """Yield the names of what differs; an option in a section is `section.name`."""
    for name in _changed(old, new):
        one, other = getattr(old, name), getattr(new, name)
        if isinstance(one, BaseModel) and isinstance(other, BaseModel):
            yield from (f"{name}.{option}" for option in _changed(one, other))
        else:
            yield name


def _holding_back(old: Config, new: Config, kept_back: Fields) -> Config:
    """Return `new` with some settings as they are in `old`."""
    update: dict[str, Any] = {}
    for name in kept_back:
        section, dot, field = name.partition(".")
        if not dot:
            update[name] = getattr(old, name)
            continue
        begun = update.get(section, getattr(new, section))
        update[section] = begun.model_copy(update={field: getattr(getattr(old, section), field)})
    return new.model_copy(update=update) if update else new
