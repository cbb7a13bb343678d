"""One entry of a host file under our names, with notes about losses and changes.

Law: no value of an entry is in a note or in the reason of an UnusableEntry; keys are, shortened.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aggregator.config.servers.foreign import ENV_FILE, IGNORED, is_comment, translate
from aggregator.config.servers.foreign_references import variables_alone
from aggregator.hosts.model import OwnLaunch, UnusableEntry

_TEXTS: Final = ("command", "url", "cwd", ENV_FILE, "description")
_OBJECTS: Final = ("env", "headers")
# The fields that another host's entry may share, in the usual order.
_KEPT: Final = (
    "type",
    "command",
    "args",
    "env",
    ENV_FILE,
    "cwd",
    "url",
    "headers",
    "description",
    "enabled",
    "timeout",
    "limits",
    "tools",
)
# Keys that can be left out without a word: nothing is lost here by that.
_SILENT: Final = frozenset(
    {
        "id",
        "name",
        "icon",
        "metadata",
        "tags",
        "alwaysAllow",
        "autoApprove",
        "trust",
        "extension",
        "gallery",
        "version",
        "dev",
        "source",
        "settings",
        "watchPaths",
        "isTrusted",
        "logoUrl",
        "registryUrl",
        "installSource",
        "provider",
        "providerUrl",
        "alwaysLoad",
    }
)
_SIGN_IN: Final = frozenset({"oauth", "auth", "authProviderType", "oauth_resource", "scopes"})
# A bare number above this counts milliseconds, if the host does not name a unit.
_LONGEST_SECONDS: Final = 3600
# Words for true and false in older YAML, which people still write.
_SWITCH_WORDS: Final = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_LOCAL_TYPES: Final = frozenset({"stdio", "local"})
_REMOTE_TYPES: Final = frozenset({"http", "sse", "auto"})


@dataclass(frozen=True, slots=True)
class HostSpelling:
    """The keys and references by which one host differs from `mcpServers` of Claude Desktop.

    `renamed` maps its keys to ours. `timeouts` and `connect_timeouts` map its keys for `timeout` and for
    `limits.connect_timeout` to the seconds that one unit is, as its documentation says; None if it has no unit, or had
    another one before: the size of the number decides then. `text` changes its references into ours; `fills_in` says
    whether it has references at all. `silent` are more keys that nothing is lost with.
    """

    title: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    timeouts: Mapping[str, float | None] = field(default_factory=lambda: {"timeout": None})
    connect_timeouts: Mapping[str, float] = field(default_factory=dict)
    text: Callable[[str], str] = str
    fills_in: bool = True
    silent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EntryReading:
    """An entry in our form, and the notes about it."""

    fields: dict[str, Any]
    notes: tuple[str, ...]


def read_entry(entry: Mapping[str, Any], spelling: HostSpelling) -> EntryReading:
    """Return an entry of a host in our form. Raises UnusableEntry."""
    notes: list[str] = []
    nested = entry.get("transport")
    if isinstance(nested, Mapping):  # newer versions of Cline, older ones of Continue
        entry = {**nested, **{key: value for key, value in entry.items() if key != "transport"}}
    left = {key: value for key, value in entry.items() if value is not None and not is_comment(key)}
    timeout = _taken(left, spelling.timeouts, notes)
    connect_timeout = _taken(left, spelling.connect_timeouts, notes)
    for key, ours in spelling.renamed.items():
        if key in left:
            left.setdefault(ours, left.pop(key))
    made = translate({key: value for key, value in left.items() if key not in spelling.silent})
    fields = dict(made.fields)
    # A host's own object of this name is not ours.
    unknown = (*made.unknown, "limits") if fields.pop("limits", None) is not None else made.unknown
    if timeout is not None:
        fields["timeout"] = timeout
    if connect_timeout is not None:
        fields["limits"] = {"connect_timeout": connect_timeout}
    if isinstance(written := left.get("enabled"), str):
        fields["enabled"] = _SWITCH_WORDS.get(written.strip().lower())
    if not isinstance(fields.get("enabled", True), bool):
        raise UnusableEntry("its switch (`enabled` or `disabled`) is neither true nor false")
    if ENV_FILE in left:
        fields[ENV_FILE] = left[ENV_FILE]
    _note_lost(left, unknown, fields, spelling, notes)
    found = {key: fields[key] for key in _KEPT if fields.get(key) is not None}
    _check_forms(found, notes)
    _choose_transport(found, notes)
    _tidy(found)
    return EntryReading(_with_references(found, spelling, notes), tuple(dict.fromkeys(notes)))


def plain_entry(launch: OwnLaunch, **more: Any) -> dict[str, Any]:
    """Return our own entry in the form of `mcpServers` that most hosts share; `more` comes first."""
    made: dict[str, Any] = dict(more)
    if launch.url is not None:
        made["url"] = launch.url
        if launch.headers:
            made["headers"] = dict(launch.headers)
        return made
    made["command"], made["args"] = launch.command, list(launch.args)
    if launch.env:
        made["env"] = dict(launch.env)
    return made


def program_entry(title: str, launch: OwnLaunch) -> dict[str, Any]:
    """Return our own entry for a host that starts programs alone. Raises ValueError for an address."""
    if launch.url is not None:
        raise ValueError(f"{title} starts programs alone; an address is added in its own settings.")
    return plain_entry(launch)


def in_order(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with its fields in the usual order."""
    return {key: fields[key] for key in _KEPT if key in fields}


def dollar_names(text: str) -> str:
    """Return a text in which `$NAME` is `${NAME}`; a `$` before anything but capitals is a plain one."""
    return re.sub(r"\$([A-Z_][A-Z0-9_]*)(?![A-Za-z0-9_])", r"${\1}", text)


def _note_lost(
    left: Mapping[str, Any], unknown: tuple[str, ...], fields: dict[str, Any], spelling: HostSpelling, notes: list[str]
) -> None:
    for key in left:
        if key in _SIGN_IN:
            notes.append(
                f"Its sign-in ({_short(key)}) stays with {spelling.title}: here it needs a token in `headers`."
            )
        elif key == "headersHelper":
            notes.append("The program that makes its headers (headersHelper) is not run here: write them in `headers`.")
        elif key.startswith("sandbox"):
            notes.append(f"The sandbox of {spelling.title} is not there: the server runs without it.")
        elif key in IGNORED and key not in _SILENT and key not in spelling.silent:
            notes.append(f"`{_short(key)}` has no meaning here and is left out.")
    foreign = [key for key in fields if key not in _KEPT]
    notes.extend(
        f"`{_short(key)}` is not known here and is left out."
        for key in (*unknown, *foreign)
        if key not in _SIGN_IN and not key.startswith("sandbox")
    )


def _check_forms(found: dict[str, Any], notes: list[str]) -> None:
    """Bring values into the types of our fields. Raises UnusableEntry for those that cannot be."""
    for key in _TEXTS:
        if key in found and not isinstance(found[key], str):
            raise UnusableEntry(f"its `{key}` is no text")
    for key in ("command", "url", "cwd", ENV_FILE):
        if key in found and not found[key].strip():
            del found[key]
    for key in _OBJECTS:
        if key in found:
            found[key] = _texts_by_name(found[key], key)
            if not found[key]:
                del found[key]
    if "args" in found:
        found["args"] = _arguments(found["args"], notes)
    words = found.get("command", "").split()
    if len(words) > 1 and "args" not in found and not re.search(r"[/\\\"']", words[0]):
        found["command"], found["args"] = words[0], words[1:]
        notes.append("Its `command` held arguments too; they are in `args` now.")
    tools = found.get("tools")
    if tools is not None:
        parts = (
            {part: names for part, names in tools.items() if part in ("include", "exclude")}
            if isinstance(tools, Mapping)
            else {}
        )
        if all(isinstance(n, list) and all(isinstance(name, str) for name in n) for n in parts.values()) and parts:
            found["tools"] = {part: list(names) for part, names in parts.items()}
        else:
            del found["tools"]
            notes.append("Its `tools` have no meaning here and are left out.")


def _texts_by_name(value: object, key: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise UnusableEntry(f"its `{key}` is no object")
    made = {str(name): _scalar(item) for name, item in value.items() if item is not None}
    if any(item is None for item in made.values()):
        raise UnusableEntry(f"its `{key}` holds something that is no text")
    return {name: item for name, item in made.items() if item is not None}


def _arguments(value: object, notes: list[str]) -> list[str]:
    if isinstance(value, str):
        notes.append("Its `args` were one text; they are a list now, split at spaces.")
        return value.split()
    made = [_scalar(item) for item in value] if isinstance(value, list) else [None]
    if any(item is None for item in made):
        raise UnusableEntry("its `args` are no list of texts")
    return [item for item in made if item is not None]


def _scalar(value: object) -> str | None:
    """Return a text, number or truth value as the text that programs see; None for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _choose_transport(found: dict[str, Any], notes: list[str]) -> None:
    kind = found.pop("type", None)
    if kind is not None and not (isinstance(kind, str) and kind in _LOCAL_TYPES | _REMOTE_TYPES):
        raise UnusableEntry("its `type` is none of stdio, http and sse")
    if "command" in found and "url" in found:
        remote = kind in _REMOTE_TYPES
        notes.append(f"It had `command` and `url`; the {'address' if remote else 'program'} is taken.")
        del found["command" if remote else "url"]
    if "command" not in found and "url" not in found:
        raise UnusableEntry("it has neither `command` nor `url`")
    unused = ("headers",) if "command" in found else ("args", "env", "cwd", ENV_FILE)
    notes.extend(
        f"Its `{key}` has no use for a server of its kind and is left out." for key in unused if found.pop(key, None)
    )
    if "url" in found:
        if not re.match(r"https?://[^/\s]", found["url"], re.IGNORECASE) and "${" not in found["url"]:
            raise UnusableEntry("its address begins neither with http:// nor with https://")
        if kind in ("http", "sse"):
            found["type"] = kind


def _tidy(found: dict[str, Any]) -> None:
    """Leave out what our defaults say."""
    if found.get("enabled") is True:
        del found["enabled"]
    if found.get("tools") in ({"include": ["*"]}, {}):
        del found["tools"]
    if found.get("args") == []:
        del found["args"]


def _with_references(found: dict[str, Any], spelling: HostSpelling, notes: list[str]) -> dict[str, Any]:
    def text(value: str) -> str:
        changed = spelling.text(value)
        if "${" not in changed:
            return changed
        if not spelling.fills_in:
            notes.append(f"{spelling.title} passes ${{NAME}} on as it is; here it stands for the variable.")
        return variables_alone(changed, notes)

    made: dict[str, Any] = {}
    for key in _KEPT:
        value = found.get(key)
        if key in ("command", "url", "cwd", ENV_FILE):
            made[key] = value and text(value)
        elif key == "args":
            made[key] = value and [text(item) for item in value]
        elif key in _OBJECTS:
            made[key] = value and {name: text(item) for name, item in value.items()}
        else:
            made[key] = value
    return {key: value for key, value in made.items() if value is not None}


def _taken(left: dict[str, Any], units: Mapping[str, float | None], notes: list[str]) -> float | int | None:
    """Take a time out of the remaining fields of an entry; return it in seconds, the last if there are several."""
    found = [_duration(left.pop(key), unit, key, notes) for key, unit in units.items() if key in left]
    return found[-1] if found else None


def _duration(value: object, unit: float | None, key: str, notes: list[str]) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnusableEntry(f"its `{_short(key)}` is no number of a time")
    known = unit if unit is not None else 0.001 if value > _LONGEST_SECONDS else 1.0
    if not 0 < value * known < 10**9:
        raise UnusableEntry(f"its `{_short(key)}` is no number of a time")
    seconds = value * known
    made = int(seconds) if float(seconds).is_integer() else seconds
    if unit is None and known != 1.0:
        notes.append(f"Its `{_short(key)}` is taken as milliseconds, for its size: {made:g} s here.")
    return made


def _short(key: str) -> str:
    return key if len(key) <= 40 else f"{key[:37]}..."
