"""The plan of an import: what becomes of every entry that was found, before anything is written."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aggregator.cli.hosts.import_paths import answered, placed
from aggregator.config.servers.foreign import translate
from aggregator.config.servers.names import usable
from aggregator.config.servers.secret_places import SecretPlace, secret_places
from aggregator.domain.shell import shell_line
from aggregator.hosts.discover import FoundFile, FoundServer
from aggregator.hosts.entries import in_order
from aggregator.hosts.own import conflicts, identity, is_own, lacking, program_name

Outcome = Literal["add", "present", "repeated", "own", "unusable", "not_chosen", "of_folder"]
_LONGEST_KEY: Final = 64
_LONGEST_COMMAND: Final = 1000
_RUNNERS: Final = frozenset(
    {"npx", "uvx", "bunx", "pipx", "uv", "pnpm", "docker", "podman", "python", "python3", "node"}
)
_SUBCOMMANDS: Final = frozenset({"run", "exec", "dlx", "tool", "start"})
# Flags of `docker run` and its like that take a value as a word of its own.
_WITH_VALUE: Final = frozenset(
    {"-e", "--env", "-v", "--volume", "--mount", "--name", "-p", "--network", "--env-file", "-w", "-u", "--user"}
    | {"--directory", "--with", "--python", "--from", "--platform", "--add-host", "--label", "-l"}
)


@dataclass(frozen=True, slots=True)
class ImportRow:
    """One entry of a host file and its outcome.

    `key` is its new name. `like` names an equal entry, or the reason why it cannot be used. `entry` is the planned
    entry, `places` are its plain-text secrets.
    """

    found: FoundServer
    outcome: Outcome
    what: str
    key: str | None = None
    like: str | None = None
    notes: tuple[str, ...] = ()
    entry: dict[str, Any] | None = field(default=None, repr=False)
    places: tuple[SecretPlace, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The rows of every file, in the order in which they were found."""

    files: tuple[tuple[FoundFile, tuple[ImportRow, ...]], ...]

    @property
    def rows(self) -> tuple[ImportRow, ...]:
        """All rows."""
        return tuple(row for _, rows in self.files for row in rows)

    @property
    def added(self) -> tuple[ImportRow, ...]:
        """The rows that would be added."""
        return tuple(row for row in self.rows if row.outcome == "add")


@dataclass(slots=True)
class _Known:
    """A server that is in the configuration, or that an earlier row adds."""

    key: str
    fields: Mapping[str, Any]
    said: str
    here: bool


def plan_import(
    files: Iterable[FoundFile],
    servers: Mapping[str, object],
    *,
    ports: Collection[int] = (),
    prefix_host: bool = False,
    only: Sequence[str] = (),
    of_folder: bool = True,
) -> ImportPlan:
    """Decide about each entry; `servers` are the configured ones by their keys.

    Without `of_folder`, new servers of the working folder's own files are left out.
    """
    known = [
        _Known(key, translate(entry).fields, f"`{key}`", True)
        for key, entry in servers.items()
        if isinstance(entry, Mapping)
    ]
    taken = {(usable(key) or key).casefold() for key in servers}
    planned = []
    for file in files:
        rows = tuple(_row(file, server, known, taken, ports, prefix_host, only, of_folder) for server in file.servers)
        planned.append((file, rows))
    return ImportPlan(tuple(planned))


def _row(
    file: FoundFile,
    server: FoundServer,
    known: list[_Known],
    taken: set[str],
    ports: Collection[int],
    prefix_host: bool,
    only: Sequence[str],
    of_folder: bool,
) -> ImportRow:
    if server.fields is None:
        return ImportRow(server, "unusable", "-", like=server.problem)
    what = summary(server.fields)
    if is_own(server.fields, ports, server.name):
        return ImportRow(server, "own", what)
    notes = list(server.notes)
    entry = in_order(answered(placed(server.fields, file.file.base, notes), file.root, notes))
    name = usable(server.name)
    if only and not {server.name, name} & set(only):
        return ImportRow(server, "not_chosen", what)
    same = next((other for other in known if _same(name, entry, other)), None)
    if same is not None:
        names = {*conflicts(entry, same.fields), *lacking(entry, same.fields)}
        differing = ", ".join(sorted(names))[:80]
        differs = (f"It differs from {same.said} in {differing}: compare them by hand.",) if differing else ()
        outcome: Outcome = "present" if same.here else "repeated"
        return ImportRow(server, outcome, what, like=same.said, notes=differs)
    if file.file.scope == "project":
        notes += _started(entry)
        if not of_folder:
            return ImportRow(server, "of_folder", what, notes=tuple(notes))
    key = _free_key(server.name, file.host.id, taken, prefix_host, notes)
    if name is None:
        entry.setdefault("description", server.name[:200])
    taken.add(key.casefold())
    known.append(_Known(key, entry, f"`{key}` of {file.host.title}", False))
    return ImportRow(server, "add", what, key, notes=tuple(notes), entry=entry, places=secret_places(entry))


def _started(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the whole command of an entry, with its secrets: a cloned folder may name any program."""
    words = [entry.get("command"), *entry.get("args", ())]
    if isinstance(words[0], str):
        yield f"It starts: {shell_line(map(str, words))[:_LONGEST_COMMAND]}"


def _same(name: str | None, entry: Mapping[str, Any], other: _Known) -> bool:
    """Return whether two entries are one server: the same program or address, and no other values on purpose.

    Under two names, other values are on purpose: one server for each of two accounts.
    """
    mine, theirs = identity(entry), identity(other.fields)
    if len(mine) != len(theirs) or not all(map(_alike, mine, theirs)):
        return False
    same_name = name is not None and name.casefold() == (usable(other.key) or other.key).casefold()
    return same_name or not any(conflicts(entry, other.fields))


def _alike(one: str, other: str) -> bool:
    """Return whether two words are equal; a reference in one of them may stand for anything."""
    return one == other or _fits(one, other) or _fits(other, one)


def _fits(pattern: str, text: str) -> bool:
    parts = re.split(r"\$\{[^{}]*\}", pattern)
    return len(parts) > 1 and re.fullmatch(".+".join(map(re.escape, parts)), text, re.DOTALL) is not None


def _free_key(name: str, host: str, taken: Collection[str], prefix_host: bool, notes: list[str]) -> str:
    # Cline's marketplace names servers by the address of their source.
    made = (usable(re.split("[/\\\\]", name.strip("/\\ "))[-1]) or usable(name) or "").lstrip("_-")[:_LONGEST_KEY]
    wanted = made or f"{host}-server"
    if wanted != name:
        notes.append("Its name is changed: names here have only letters, digits, `_` and `-`.")
    if wanted.casefold() not in taken:
        return wanted
    key = f"{host}-{wanted}" if prefix_host else wanted
    number = 2
    while key.casefold() in taken:
        key = f"{host}-{wanted}-{number}" if prefix_host else f"{wanted}-{number}"
        number += 1
    notes.append(f"The name `{wanted}` is taken, so it is called `{key}`.")
    return key


def summary(fields: Mapping[str, Any]) -> str:
    """Return a summary of an entry without possible secrets: program and package, or the host of its address."""
    if "url" in fields:
        found = re.match(r"(https?://)(?:[^/?#]*@)?([^/?#@]*)", str(fields["url"]), re.IGNORECASE)
        return f"{found[1].lower()}{found[2]}" if found else "an address"
    words = [str(fields.get("command", "")), *map(str, fields.get("args", ()))]
    if program_name(words[0]) == "cmd" and len(words) > 2:
        words = words[2:]
    program = re.split(r"[/\\]", words[0])[-1]
    if program_name(program) not in _RUNNERS:
        return program[:60]
    hidden = {place.secret for place in secret_places(fields)}
    shown, after = [program], ""
    for word in words[1:]:
        if any(secret in word for secret in hidden):
            after = word
            continue
        plain = not word.startswith("-") and after not in _WITH_VALUE
        if plain or word in ("-y", "-m", "-i", "--rm"):
            shown.append(word)
        if plain and word not in _SUBCOMMANDS and not word.startswith("mcp-remote"):
            break
        after = word
    if any(word.startswith("mcp-remote") for word in shown):  # it passes on to an address
        shown[-1] = summary({"url": shown[-1]}) if "://" in shown[-1] else shown[-1]
    return " ".join(shown)[:80]
