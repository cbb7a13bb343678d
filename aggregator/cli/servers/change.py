"""`aggregator remove`, `enable`, `disable`, `rename`: change entries of the configuration file in place."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.cli.servers.bundle_folders import unused_bundles
from aggregator.cli.servers.edit import ConfigEdit, open_config
from aggregator.cli.servers.mentions import ServerMention, ServerNames, in_config, in_policies
from aggregator.config.servers.foreign import SWITCHES, is_comment
from aggregator.config.servers.names import usable
from aggregator.domain.errors import OperatorError
from aggregator.editing.edited_file import EditedFile

_SWITCH: Final = "enabled"
_LOADED: Final = "A gateway that runs with this file loads the change by itself."
_POLICIES: Final = "policies"


def remove(config: Path | None, names: Sequence[str]) -> int:
    """Remove servers from the configuration; point out what names them still.

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
        say(f"`aggregator rename {shlex.quote(names.key)} {new} --policies` renames it there too, except in wildcards.")
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
