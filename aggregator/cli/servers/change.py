"""`aggregator remove`, `enable`, `disable`, `rename`: change entries of the configuration file in place.

Fallbacks, settings and policy files that name a server are pointed out, and not changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.cli.servers.bundle_folders import unused_bundles
from aggregator.cli.servers.edit import ConfigEdit, open_config
from aggregator.config.load import ROOTS
from aggregator.config.servers.foreign import SWITCHES, is_comment
from aggregator.config.servers.names import usable
from aggregator.domain.errors import OperatorError
from aggregator.domain.shell import shell_word
from aggregator.editing.document import Path as ValuePath
from aggregator.editing.edited_file import EditedFile, open_file
from aggregator.editing.errors import EditError
from aggregator.policy.files.folder import is_policy_file

_SWITCH: Final = "enabled"
_LOADED: Final = "A gateway that runs with this file loads the change by itself."
_POLICIES: Final = "policies"
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
        yield from (path for path in folder.iterdir() if is_policy_file(path) and path.is_file())


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


def remove(config: Path | None, names: Sequence[str]) -> int:
    """Remove servers from the configuration; list the settings that still name them.

    Raises:
        OperatorError: a server is unknown, or the file cannot be edited.
    """
    edit = open_config(config, make=False)
    keys = list(dict.fromkeys(map(edit.key_of, names)))
    entries = [edit.servers[key] for key in keys]
    removed = [ServerNames.of(key, entry) for key, entry in zip(keys, entries, strict=True)]
    for key in keys:
        while key in edit.servers:
            edit.document.remove(edit.path_to(key))
    backup = edit.write()
    _done(f"Removed {_listed(keys)} from", edit, backup)
    for one in removed:
        found = (*in_config(edit.file, one), *(mention for _, mention in in_policies(_folder(edit), one)))
        _point_out(f"These name {one.key} still:", found)
    for folder in unused_bundles(entries, edit.servers.values()):
        say(f"Its bundle is still in {folder}: delete that folder if no other configuration uses it.")
    return 0


def switch(config: Path | None, names: Sequence[str], *, on: bool) -> int:
    """Enable or disable servers, by the switch that the entry, or else the file, has.

    Raises:
        OperatorError: a server is unknown, or the file cannot be edited.
    """
    edit = open_config(config, make=False)
    keys = list(dict.fromkeys(map(edit.key_of, names)))
    changed = [key for key in keys if _set_switch(edit, key, on=on)]
    word = "enabled" if on else "disabled"
    for key in keys:
        if key not in changed:
            say(f"{one_line(key)} is {word} already.")
    if changed:
        backup = edit.write()
        _done(f"{word.capitalize()} {_listed(changed)} in", edit, backup)
    return 0


def rename(config: Path | None, old: str, new: str, *, policies: bool) -> int:
    """Rename a server, with the fallbacks that name it; with `policies`, in the policy files too.

    Raises:
        OperatorError: the server is unknown, the new name is taken or invalid, or a file cannot be edited.
    """
    edit = open_config(config, make=False)
    done = policies and old not in edit.servers and new in edit.servers
    key = new if done else edit.key_of(old)
    names = ServerNames.of(old if done else key, edit.servers[key])
    mentions = list(in_config(edit.file, names, new))
    in_files = list(in_policies(_folder(edit), names, new))
    if not done:
        _check_name(edit, key, new)
        edit.document.rename(edit.path_to(key), new)
    _apply(edit.file, mentions)
    files = {file.path: file for file, _ in in_files} if policies else {}
    for path, file in files.items():
        _apply(file, [mention for _, mention in in_files if mention.file == path])
    # Nothing is written before every edit has succeeded.
    if edit.file.changed:
        _done(f"Renamed {one_line(names.key)} to {new} in", edit, edit.write())
    for mention in mentions:
        say(one_line(f"Renamed there too: {mention}"))
    if names.prefix == names.id and not done:
        say(f"Its tools are now called {new}.*.")
    for file in files.values():
        if file.changed:
            say(f"Renamed it in {file.path} too. Previous version: {file.write()}")
    left = [mention for _, mention in in_files if mention.renamed is None or not policies]
    _point_out(f"These still name {names.key}, so they do not apply to {new}:", left)
    if left and not policies:
        say(f"`aggregator rename {shell_word(names.key)} {new} --policies` renames it there too, except in wildcards.")
    return 0


def _apply(file: EditedFile, mentions: Iterable[ServerMention]) -> None:
    # From the last on, so that the paths of the others stay good when keys are renamed.
    for mention in reversed([one for one in mentions if one.renamed is not None]):
        if mention.is_key:
            file.document.rename(mention.path, str(mention.renamed))
        else:
            file.document.put(mention.path, mention.renamed)


def _check_name(edit: ConfigEdit, key: str, new: str) -> None:
    made = usable(new)
    if made is None or is_comment(new):
        raise OperatorError(
            f"{new!r:.80} cannot be a server's name: begin it with a letter or a digit of A-Z, a-z, 0-9."
        )
    if made != new:
        raise OperatorError(f"{new!r:.80} cannot be a server's name: names of tools cannot hold it. Write {made}.")
    taken = [other for other in edit.servers if other != key and (usable(other) or other) == new]
    if taken or new == key:
        raise OperatorError(f"{edit.path} has a server {new!r} already. Choose another name.")


def _set_switch(edit: ConfigEdit, key: str, *, on: bool) -> bool:
    """Set the switch of an entry; return False if it is set so already."""
    entry = edit.servers[key]
    if not isinstance(entry, dict):
        raise OperatorError(f"{edit.path}: the entry {key!r:.80} is no object, so it cannot be switched. Correct it.")
    switches = {_SWITCH: True, **SWITCHES}
    own = next((name for name in switches if entry.get(name) is not None), None)
    if own is None and on:
        return False
    if own is None:
        others = [name for other in edit.servers.values() if isinstance(other, dict) for name in other]
        own = next((name for name in switches if name in others), _SWITCH)
    value = switches[own] is on
    if entry.get(own) is value:
        return False
    edit.document.put((*edit.path_to(key), own), value)
    return True


def _folder(edit: ConfigEdit) -> Path:
    named = edit.document.root.get("policies")
    return edit.path.absolute().parent / (named if isinstance(named, str) and "${" not in named else _POLICIES)


def _done(what: str, edit: ConfigEdit, backup: Path | None) -> None:
    say(f"{what} {edit.path}. {_LOADED}")
    if backup is not None:
        say(f"Previous version: {backup}")


def _point_out(title: str, found: Sequence[ServerMention]) -> None:
    if found:
        say(title)
        for mention in found:
            say(f"  {one_line(str(mention))}")


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(map(one_line, keys))
