"""Places outside of its entry that name a server: fallbacks and settings of the configuration, and policy files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from aggregator.config.load import ROOTS
from aggregator.config.servers.names import usable
from aggregator.editing.document import Path as ValuePath
from aggregator.editing.edited_file import EditedFile, open_file
from aggregator.editing.errors import EditError

# Texts for users, in which a name is no reference.
_PROSE: Final = frozenset({"why", "label", "description", "note"})
_KINDS: Final = ("resource:", "prompt:", "skill:", "")
_CASES: Final = "cases"


@dataclass(frozen=True, slots=True)
class ServerNames:
    """The names of one server: the key of its entry, the id, and the prefix of its tools."""

    key: str
    id: str
    prefix: str

    @classmethod
    def of(cls, key: str, entry: object) -> "ServerNames":
        """Return the names of an entry, as the configuration is read."""
        id = usable(key) or key
        own = entry.get("prefix") if isinstance(entry, Mapping) else None
        return cls(key, id, own if isinstance(own, str) else id)


@dataclass(frozen=True, slots=True)
class ServerMention:
    """One place that names a server; `renamed` is the text with the new name, None if a user has to decide."""

    file: Path
    line: int
    path: ValuePath
    text: str
    is_key: bool = False
    renamed: str | None = None

    def __str__(self) -> str:
        """Return the place as editors and terminals follow it, and what stands there."""
        return f"{self.file}:{self.line}: {self.text:.120}"


def in_config(file: EditedFile, names: ServerNames, new: str | None = None) -> Iterator[ServerMention]:
    """Yield the places of the configuration that name a server, but for its own entry."""
    document = file.document
    for path, text, is_key in _texts(document.root):
        renamed = None
        if path[0] in ROOTS:
            if len(path) > 2 and path[1] != names.key and "fallbacks" in path[2:4] and not is_key:
                renamed = _fallback(text, names, new)
        elif path[0] == "notify" and "servers" in path and text == names.id:
            renamed = new or ""
        elif path[0] == "log" and is_key and text == f"server.{names.id}":
            renamed = f"server.{new}"
        elif path[0] == "pinned" and names.prefix == names.id and text.startswith(f"{names.id}."):
            renamed = f"{new}{text[len(names.id) :]}"
        if renamed is not None:
            yield ServerMention(file.path, document.line(path), path, text, is_key, renamed if new else None)


def in_policies(folder: Path, names: ServerNames, new: str | None = None) -> Iterator[tuple[EditedFile, ServerMention]]:
    """Yield the places of policy files, and of their test cases, that name a server; unreadable files have none."""
    for path in sorted((*_files(folder), *_files(folder / _CASES))):
        try:
            file = open_file(path, "yaml")
        except EditError:
            continue
        for place, text, is_key in _texts(file.document.root):
            if _PROSE.isdisjoint(place):
                found = _pattern(text, place, names, new)
                if found is not None and not (new and found == text):
                    line = file.document.line(place)
                    renamed = found if new and found else None
                    yield file, ServerMention(path, line, place, text, is_key, renamed)


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.suffix in (".yaml", ".yml") and path.is_file())


def _texts(value: Any, path: ValuePath = ()) -> Iterator[tuple[ValuePath, str, bool]]:
    """Yield the path of every text in a value, the text, and whether it is the key at the end of the path."""
    if isinstance(value, str):
        yield path, value, False
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield (*path, key), key, True
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _texts(item, (*path, at))


def _fallback(text: str, names: ServerNames, new: str | None) -> str | None:
    for name in (names.key, names.id):
        if text == name or text.startswith(f"{name}."):
            return f"{new}{text[len(name) :]}"
    return None


def _pattern(text: str, path: ValuePath, names: ServerNames, new: str | None) -> str | None:
    """Return a text of a policy file with the new name, empty if a user has to decide; None if it names another server.

    A prefix of its own stays with the server, so patterns over names of tools still match.
    """
    if text == f"server:{names.id}":
        return f"server:{new}"
    if text == names.id and ("servers" in path or "bindings" in path):
        return new or ""
    prefix = new if names.prefix == names.id else names.prefix
    for kind in _KINDS:
        if names.prefix and text.startswith(f"{kind}{names.prefix}."):
            return f"{kind}{prefix}{text[len(kind) + len(names.prefix) :]}"
    has_kind = text.split(":")[0] in ("resource", "prompt", "skill", "server")
    kind, _, rest = text.rpartition(":") if has_kind else ("", "", text)
    head = rest if kind == "server" else rest.partition(".")[0]
    wild = any(mark in head for mark in "*?[") and ("." in rest or kind == "server") and " " not in head
    if wild and fnmatchcase(names.id, head) and (new is None or not fnmatchcase(new, head)) and head != "*":
        return ""
    return None
