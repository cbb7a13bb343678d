"""The lock file `aggregator.pins`: the pins of a configuration as JSON for version control. This file decides.

Each item stands with its digest and its definition, so that a review of the file shows the words that changed. Rule:
schema versions are not in it. A reviewer could not see that one of them belongs to another definition.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aggregator.domain.errors import OperatorError
from aggregator.domain.text.error_text import error_text
from aggregator.domain.text.invisible import escaped
from aggregator.pins.decide.definition import canonical_text, text_digest
from aggregator.pins.decide.findings import one_line
from aggregator.pins.decide.values import ItemKey, PinKind, PinnedItem
from aggregator.wire.codec import TooDeep, decode, encode_sorted

LOCK_FILE: Final = "aggregator.pins"
"""The name of a lock file; it is beside the configuration."""

_VERSION: Final = 1
_MEMBERS: Final[Mapping[str, PinKind]] = {
    "instructions": "instructions",
    "tools": "tool",
    "prompts": "prompt",
    "templates": "template",
    "skills": "skill",
}
_FIX: Final = "Take the file from version control, or write it anew with `aggregator pins check --write`."


class LockFileError(OperatorError):
    """A lock file that cannot be used. The message names the place in it and the fix."""


def read_lock(text: bytes, path: str = LOCK_FILE) -> dict[str, dict[ItemKey, PinnedItem]]:
    """Return the pins of each server that a lock file has. `path` is what messages call it.

    Raises:
        LockFileError: it is no lock file, or the digest of an item does not fit its definition.
    """
    servers = _servers(_parsed(text, path), path)
    pins: dict[str, dict[ItemKey, PinnedItem]] = {}
    for server, members in servers.items():
        place = f"servers.{one_line(server)}"
        if not isinstance(members, dict):
            raise _refused(path, place, "it is no object")
        unknown = sorted(members.keys() - _MEMBERS.keys())
        if unknown:
            raise _refused(path, f"{place}.{one_line(unknown[0])}", f"only {', '.join(_MEMBERS)} may stand there")
        found = pins[server] = {}
        for member, kind in _MEMBERS.items():
            items = members.get(member)
            if items is None:
                continue
            if kind == "instructions":
                items = {"": items}
            if not isinstance(items, dict):
                raise _refused(path, f"{place}.{member}", "it is no object of items by name")
            for name, item in items.items():
                at = f"{place}.{member}.{one_line(name)}" if name else f"{place}.{member}"
                found[kind, name] = _item(kind, name, item, path, at)
    return pins


def write_lock(servers: Mapping[str, Iterable[PinnedItem]]) -> bytes:
    """Return the text of a lock file: sorted, so that equal pins make equal files, with a line break at the end."""
    written = {}
    for server in sorted(servers):
        members: dict[str, Any] = {}
        for member, kind in _MEMBERS.items():
            items = sorted((item for item in servers[server] if item.kind == kind), key=lambda item: item.name)
            entries = {item.name: {"digest": item.digest, "definition": _value(item)} for item in items}
            if entries:
                members[member] = entries[""] if kind == "instructions" and "" in entries else entries
        written[server] = members
    text = json.dumps({"version": _VERSION, "servers": written}, indent=2, ensure_ascii=False, allow_nan=False)
    # What cannot be seen would pass a review unseen.
    return ("\n".join(map(escaped, text.split("\n"))) + "\n").encode()


def _value(item: PinnedItem) -> Any:
    return decode(item.definition.encode(), float("inf"))


def _item(kind: PinKind, name: str, item: Any, path: str, place: str) -> PinnedItem:
    if not isinstance(item, dict) or item.keys() != {"digest", "definition"}:
        raise _refused(path, place, "an item has `digest` and `definition`, and nothing else")
    text = canonical_text(kind, item["definition"])
    digest = text_digest(text)
    # An earlier version of this program may have made another text of it.
    if item["digest"] not in (digest, text_digest(_as_it_stands(item["definition"]))):
        raise _refused(path, place, "its digest does not fit its definition: one of the two was changed by hand")
    return PinnedItem(kind, name, digest, "", text)


def _as_it_stands(value: Any) -> str:
    try:
        return encode_sorted(value).decode()
    except (TooDeep, TypeError, ValueError):
        return ""


def _servers(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.keys() - {"version", "servers"}:
        raise _refused(path, "the beginning", "it is no object with `version` and `servers` alone")
    version = value.get("version")
    if version is not True and version == _VERSION:
        servers = value.get("servers")
        if isinstance(servers, dict):
            return servers
        raise _refused(path, "servers", "it is no object of servers by name")
    raise LockFileError(
        f"{path}: version: it is {one_line(json.dumps(version))}, and this program reads {_VERSION}. {_FIX}"
    )


def _parsed(text: bytes, path: str) -> Any:
    try:
        plain = text.decode()
    except UnicodeDecodeError as error:
        raise _refused(path, f"byte {error.start}", "it is not UTF-8") from None
    try:
        return json.loads(plain, object_pairs_hook=_once, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        line = plain.split("\n")[error.lineno - 1]
        what = "a merge conflict was left in it" if line.startswith(("<<<<<<<", "=======", ">>>>>>>")) else error.msg
        raise _refused(path, f"line {error.lineno}, column {error.colno}", what) from None
    except RecursionError:
        raise _refused(path, "the whole", "it is nested too deeply") from None
    except ValueError as error:
        raise _refused(path, "the whole", error_text(error)) from None


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(members)
    if len(made) < len(members):
        twice = Counter(name for name, _ in members).most_common(1)[0][0]
        raise ValueError(f"one object has `{one_line(twice)}` twice")
    return made


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _refused(path: str, place: str, why: str) -> LockFileError:
    return LockFileError(f"{path}: {place}: {why}. {_FIX}")
