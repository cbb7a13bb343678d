"""Read the configuration: the file, the environment, and the defaults.

Law: one bad entry costs that entry, and nothing else.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from aggregator.config.errors import ConfigError
from aggregator.config.files.find import ConfigLocation, find_config
from aggregator.config.files.jsonfile import JsonObject, kind, read_bytes, read_object
from aggregator.config.files.report import Report, Where, did_you_mean, dotted, nearest
from aggregator.config.files.trust import TrustList
from aggregator.config.model import Config
from aggregator.config.sections import SECTIONS, SETTINGS, allowing, is_needed, read_sections
from aggregator.config.server_config import LeftOutEntry, ServerConfig
from aggregator.config.servers.database_password import LatePassword, take_password
from aggregator.config.servers.entry_key import configuration_of, entry_key
from aggregator.config.servers.expand import Expander
from aggregator.config.servers.fallbacks import settle_fallbacks
from aggregator.config.servers.foreign import IGNORED_ROOT, MEANT, is_comment
from aggregator.config.servers.names import folded, usable
from aggregator.config.servers.secrets import secrets_in_address
from aggregator.config.servers.server import Override, ServerReader, read_overrides
from aggregator.config.settings import TlsConfig
from aggregator.domain.problems import Problem
from aggregator.domain.text.error_text import error_text
from aggregator.notify.config import secrets_of
from aggregator.redaction.redactor import Redactor
from aggregator.secret_sources.deferred_url import DeferredUrl
from aggregator.secret_sources.reference import SecretReference

__all__ = ["ConfigError", "Loaded", "find_config", "load", "load_content", "load_found", "load_mapping", "must_start"]

ROOTS = ("mcpServers", "servers")  # the second is VS Code's
ROOT_KEYS = (*ROOTS, *SETTINGS, "$schema")
_SERVER_MARKS = frozenset({"command", "url", "serverUrl", "httpUrl"})
# The first step of a path in an entry.
_FIELD = re.compile(r"\.([A-Za-z_]+)")
# The URL of an SQLite file by a relative path.
_RELATIVE_STORAGE = re.compile(r"(sqlite(?:\+aiosqlite)?:///)(?![/:])(.+)", re.DOTALL)


@dataclass(frozen=True)
class Loaded:
    """A usable configuration, with the problems of its file and the secrets in it.

    No program starts with `fatal` problems: misspelt keys at the root, and unusable settings of access control or of
    the audit. `files` are the file itself and those it refers to, `listed` is the number of server entries, good or
    bad, and `trust` is the list that must have the file whenever it is read. `password` are the parts of that of the
    database, where references stand for it. `variables` are those of the environment that each entry takes, by its key;
    under "" those that settings take. One is True if a reference to it has no default.
    """

    config: Config
    problems: tuple[Problem, ...]
    path: Path | None
    secrets: frozenset[str] = field(repr=False)
    files: frozenset[Path] = frozenset()
    fatal: tuple[Problem, ...] = ()
    listed: int = 0
    trust: TrustList | None = None
    password: tuple[str | SecretReference, ...] = field(default=(), repr=False)
    variables: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)

    @property
    def hidden(self) -> frozenset[str]:
        """The secrets but for the path of this interpreter, which a variable may have brought in."""
        return self.secrets - {sys.executable}

    @cached_property
    def redactor(self) -> Redactor:
        """The redactor of the secrets, and of what the section `redact` names."""
        rules = self.config.redact
        return Redactor(self.hidden, patterns=rules.patterns, fields=rules.fields, also=rules.also)

    @property
    def policies(self) -> Path:
        """The folder of the policy files, absolute."""
        return self._folder / self.config.policies

    @property
    def storage(self) -> str | None:
        """The URL of the database, if one is configured; a relative path in it is resolved from the file's folder.

        A password that references stand for is not in it: the URL has a function that gives it.
        """
        if self.config.storage is not None and self.password:
            late = LatePassword(self.password, self.config.secrets.timeout, self.redactor)
            return DeferredUrl(self.config.storage, late)
        relative = _RELATIVE_STORAGE.fullmatch(self.config.storage or "")
        if relative is None:
            return self.config.storage
        return f"{relative[1]}{self._folder / os.path.expanduser(relative[2])}"

    @property
    def tls(self) -> TlsConfig | None:
        """The settings of our own TLS, with absolute paths; None if there are none."""
        tls = self.config.http.tls
        if tls is None:
            return None
        named = {"certificate": tls.certificate, "key": tls.key, "client_ca": tls.client_ca}
        full = {name: str(self._folder / os.path.expanduser(path)) for name, path in named.items() if path is not None}
        return tls.model_copy(update=full)

    @property
    def _folder(self) -> Path:
        return self.path.absolute().parent if self.path else Path.cwd()


def load_found(found: ConfigLocation, environ: Mapping[str, str]) -> Loaded:
    """Read the file that was found, as `load` does."""
    return load(found.path, environ, found.trust)


def must_start(loaded: Loaded) -> None:
    """Refuse a configuration that no program may start with.

    Raises:
        ConfigError: the configuration has fatal problems.
    """
    if loaded.fatal:
        raise ConfigError("\n".join(map(str, loaded.fatal)))


def load(path: Path | None, environ: Mapping[str, str], trust: TrustList | None = None) -> Loaded:
    """Read a file (None: the environment alone), which `trust` must have, if it is given.

    Raises:
        ConfigError: the file cannot be read, is not trusted, or is not a JSON object.
    """
    root = JsonObject() if path is None else read_object(path, _content(path, trust))
    return _loaded(root, path, str(path) if path else "environment", environ, trust)


def load_content(path: Path, content: bytes, environ: Mapping[str, str]) -> Loaded:
    """Read what a file at `path` would be with this content.

    Raises:
        ConfigError: the content is not a JSON object.
    """
    return _loaded(read_object(path, content), path, str(path), environ, None)


def load_mapping(content: Mapping[str, Any], environ: Mapping[str, str]) -> Loaded:
    """Read a configuration from an object as a file would hold it; its paths are relative to the working folder.

    Raises:
        ConfigError: the object is not JSON.
    """
    try:
        text = json.dumps(content, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"The configuration is not JSON: {error_text(error)}.") from None
    return _loaded(read_object(Path("configuration"), text.encode()), None, "configuration", environ, None)


def _loaded(
    root: JsonObject, path: Path | None, name: str, environ: Mapping[str, str], trust: TrustList | None
) -> Loaded:
    report = Report(name)
    folder = path.absolute().parent if path else Path.cwd()
    expander = allowing(Expander(environ, folder, _inputs(root)), root)
    misspelt = {*_note_keys(root, report)}
    stored, password = take_password(root, expander)
    config = read_sections(stored, expander, report)
    variables: dict[str, Mapping[str, bool]] = {"": expander.looked_up}
    left_out: list[LeftOutEntry] = []
    read = tuple(_servers(root, expander, report, variables, left_out))
    servers = settle_fallbacks(read, partial(_place, root), report)
    if name != "environment" and not servers and not report.problems:
        report.warning((), "The file lists no servers.", 'Add some under "mcpServers".')
    configuration = configuration_of(path, config.storage, config.replicas.group)
    servers = tuple(one.model_copy(update={"entry": entry_key(configuration, one)}) for one in servers)
    config = config.with_entries(servers, left_out)
    expander.secrets.update(secrets_in_address(config.storage or ""))
    tls = config.http.tls
    own = [config.audit.chain_key, config.replicas.key, tls.key_password if tls is not None else None]
    expander.secrets.update(filter(None, [*own, *secrets_of(config.notify)]))
    files = expander.files | ({path.absolute()} if path else set()) | ({trust.path} if trust else set())
    listed = sum(len(entries) for where in ROOTS if isinstance(entries := root.get(where), JsonObject))
    return Loaded(
        config,
        tuple(report.problems),
        path,
        frozenset(expander.secrets),
        frozenset(files),
        tuple(
            one
            for one in report.problems
            if one.severity == "error" and (one.where in misspelt or is_needed(one.where))
        ),
        listed,
        trust,
        password,
        variables,
    )


def _content(path: Path, trust: TrustList | None) -> bytes:
    content = read_bytes(path)
    if trust is not None:
        trust.check(path, content)
    return content


def _servers(
    root: JsonObject,
    expander: Expander,
    report: Report,
    variables: dict[str, Mapping[str, bool]],
    left_out: list[LeftOutEntry],
) -> Iterator[ServerConfig]:
    """Yield the servers. The variables that each entry looks up go to `variables`, by its key; entries that cannot be
    used go to `left_out`.
    """
    environment = Report("environment", report.problems)
    overrides = read_overrides(expander.environ, environment)
    expander.secrets.update(o.address for o in overrides.values() if o.address)
    reader = ServerReader(expander, environment, variables)
    used: set[str] = set()
    for where in ROOTS:
        for key, raw in _entries(root, where, report, left_out):
            used.add(folded(key))
            before = len(report.problems)
            if server := reader.read(key, raw, (where, key), report, overrides.get(folded(key))):
                yield server
            else:
                fault = next((one.where for one in report.problems[before:] if one.severity == "error"), "")
                left_out.append(_left_out(key, fault.removeprefix(dotted((where, key)))))
    for name, override in overrides.items():
        if name not in used and (server := _from_environment(name, override, reader)):
            yield server


def _left_out(key: str, fault: str) -> LeftOutEntry:
    """Return an entry that cannot be used; `fault` is the path in it of its first error."""
    field = _FIELD.match(fault)
    what = f"`{field[1]}`" if field is not None and field[1] in MEANT else "the entry"
    return LeftOutEntry(usable(key) or key, f"{what} cannot be used")


def _place(root: Mapping[str, object], server: ServerConfig) -> Where:
    """Return the path of a server's entry in the file."""
    found = (where for where in ROOTS if isinstance(entries := root.get(where), Mapping) and server.key in entries)
    return next(found, ROOTS[0]), server.key


def _from_environment(name: str, override: Override, reader: ServerReader) -> ServerConfig | None:
    if override.address is None:
        set_alone = "TIMEOUT" if override.timeout is not None else "TRANSPORT"
        reader.environment.warning(
            (f"{name}_MCP_{set_alone}",),
            f"No server is called {name.lower()}, so there is nothing to change.",
            f"Set {name}_MCP_SERVER_URL as well, or unset it.",
        )
        return None
    return reader.read(name.lower(), {}, (f"{name}_MCP_SERVER_URL",), reader.environment, override)


def _entries(
    root: JsonObject, where: str, report: Report, left_out: list[LeftOutEntry]
) -> Iterator[tuple[str, object]]:
    entries = root.get(where)
    if entries is None:
        return
    if not isinstance(entries, JsonObject):
        report.error(
            (where,), f"Expected an object in {{ }}, got {kind(entries)}.", 'Write {"name": {"command": ...}}.'
        )
        left_out.append(LeftOutEntry(where, "it is no object in { }"))
        return
    for key in entries.repeated:
        report.warning(
            (where, key), "This server is there more than once; the last one counts.", "Rename or remove it."
        )
    yield from ((key, raw) for key, raw in entries.items() if not is_comment(key) or isinstance(raw, dict))


def _note_keys(root: JsonObject, report: Report) -> Iterator[str]:
    """Report unknown and repeated keys at the root; yield the paths of those that were meant to be settings."""
    for key in root.repeated:
        report.warning((key,), "This key is there more than once; the last one counts.", "Put them together.")
    for key, value in root.items():
        if key in ROOT_KEYS or key in IGNORED_ROOT or is_comment(key):
            continue
        message, fix = "This key is not known and has no effect.", did_you_mean(key, ROOT_KEYS)
        if isinstance(value, dict) and not _SERVER_MARKS.isdisjoint(value):
            fix = 'It looks like a server: put it inside "mcpServers".'
            if any(root.get(where) for where in ROOTS):
                report.warning((key,), message, fix)
            else:
                report.error((key,), message, fix)
                yield dotted((key,))
        elif where := [name for name, section in SECTIONS.items() if key in section.model_fields]:
            report.warning((key,), message, f"Write it inside {' or '.join(f'`{name}`' for name in where)}.")
        elif fix is not None and nearest(key, ROOT_KEYS) != "$schema":
            report.error((key,), message, fix)
            yield dotted((key,))
        else:
            report.warning((key,), message, fix or "Remove it.")


def _inputs(root: JsonObject) -> dict[str, str | None]:
    """Return the defaults of VS Code's `inputs`, by id."""
    listed = root.get("inputs")
    found: dict[str, str | None] = {}
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            default = item.get("default")
            found[item["id"]] = default if isinstance(default, str) else None
    return found
