"""The classes of a change between two canonical texts of one item. This file decides; it awaits nothing.

Law: `cosmetic` alone means white space in texts to read, the order of values, or icons that stay at their origin.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.pins.decide.definition import counted_value
from aggregator.pins.decide.findings import Findings, new_prose, one_line, same, same_but_for_spaces
from aggregator.pins.decide.meaning import mean_the_same, repeats_name
from aggregator.pins.decide.plain_schema import plain
from aggregator.pins.decide.schema_change import SchemaChange
from aggregator.pins.decide.values import PinKind
from aggregator.wire.codec import decode

# Characters of a definition that is compared part by part; in a larger one, each member counts as one part.
LARGEST: Final = 96 * 1024
# Members read by models and users, by kind. Names are among them if something else identifies the item.
_READ: Final[Mapping[PinKind, frozenset[str]]] = {
    "tool": frozenset({"title", "description"}),
    "prompt": frozenset({"title", "description"}),
    "template": frozenset({"name", "title", "description"}),
    "skill": frozenset({"name", "title", "description"}),
    "instructions": frozenset(),
}
_ICON: Final = frozenset({"src", "mimeType", "sizes", "theme"})
_WRITTEN: Final = {"inputSchema": "input schema", "outputSchema": "output schema"}
# The default, and the value that looks safer (S/schema, ToolAnnotations).
_HINTS: Final = {
    "readOnlyHint": (False, True, "only reads"),
    "destructiveHint": (True, False, "destroys nothing"),
    "idempotentHint": (False, True, "may be repeated without harm"),
    "openWorldHint": (True, False, "reaches nothing outside its own system"),
}


def find_changes(kind: PinKind, before: str, after: str, leave_out: frozenset[str] = frozenset()) -> Findings:
    """Compare two canonical texts of one item that differ, but for some members.

    The findings have a class whenever nothing is left out.
    """
    findings = Findings()
    try:
        old, new = (counted_value(kind, decode(text.encode(), float("inf"))) for text in (before, after))
    except ValueError:
        for change in ("description", "wider", "other"):
            findings.add(change, "what was pinned of it cannot be read")
        return findings
    if isinstance(old, dict) and isinstance(new, dict):
        small = max(len(before), len(after)) <= LARGEST
        for name in sorted((old.keys() | new.keys()) - leave_out):
            if (name in old) != (name in new) or not same(old[name], new[name]):
                _member(findings, kind, name, old, new, small)
    elif same_but_for_spaces(old, new):
        findings.add("cosmetic", "white space in it changed")
    else:
        findings.add("description", "its text changed" if kind == "instructions" else "its definition changed")
    if not findings.classes and not leave_out:
        findings.add("other", "its definition changed")
    return findings


def _member(
    findings: Findings, kind: PinKind, name: str, old: Mapping[str, Any], new: Mapping[str, Any], small: bool
) -> None:
    before, after = old.get(name), new.get(name)
    known = _MEMBERS.get((kind, name)) or _MEMBERS.get((None, name))
    if _is_no_change(kind, name, old, new, small):
        findings.add("cosmetic", f"its {_WRITTEN.get(name, 'definition')} is written in another way")
    elif name in _READ[kind]:
        _read(findings, name, before, after)
    elif known is not None and small and _are_alike(old, new, name):
        known(findings, before, after)
    elif name == "inputSchema":
        findings.add("wider", "its input schema changed")
        findings.add("description")
    elif name == "outputSchema":
        findings.add("output", "its output schema changed")
        # The texts of a schema that was not there before come with it.
        if name in old and name in new:
            findings.add("description")
    elif name == "arguments" and kind == "prompt":
        findings.add("wider", "its arguments changed")
        findings.add("description")
    elif name == "annotations":
        findings.add("other_annotations", "its annotations changed")
        if kind == "tool":
            findings.add("safer_annotations")
        if not small or new_prose(before, after):
            findings.add("description")
    else:
        _other(findings, name, before, after, small)


def _is_no_change(kind: PinKind, name: str, old: Mapping[str, Any], new: Mapping[str, Any], small: bool) -> bool:
    """Return whether a member means what it meant, as upgrades of libraries write it in another way."""
    before, after = old.get(name), new.get(name)
    if name in ("inputSchema", "outputSchema") and kind == "tool" and small:
        alike = isinstance(before, dict) and isinstance(after, dict)
        return alike and mean_the_same(before, after, named=name == "inputSchema")
    if name == "title" and kind in ("tool", "prompt") and isinstance(own := new.get("name"), str):
        return repeats_name(before, own) and repeats_name(after, own)
    usual = {"taskSupport": "forbidden"}
    return name == "execution" and (before or usual) == (after or usual)


def _are_alike(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
    """Return whether a member is an object or a list in both, or else not there; it is then gone through."""
    values = [one[name] for one in (old, new) if name in one]
    if name in ("annotations", "icons"):
        return all(isinstance(value, dict if name == "annotations" else list) for value in values)
    return len(values) == 2 and isinstance(values[0], dict | list) and type(values[0]) is type(values[1])


def _read(findings: Findings, name: str, before: Any, after: Any) -> None:
    if same_but_for_spaces(before, after):
        findings.add("cosmetic", f"white space in its {name} changed")
    else:
        findings.add("description", f"its {name} changed")


def _other(findings: Findings, name: str, before: Any, after: Any, small: bool) -> None:
    findings.add("other", f"its `{one_line(name)}` changed")
    if not small or new_prose(before, after):
        findings.add("description")


def _input(findings: Findings, before: Any, after: Any) -> None:
    SchemaChange(plain(before, choices=False), plain(after, choices=False), findings)


def _output(findings: Findings, before: Any, after: Any) -> None:
    found = Findings()
    SchemaChange(plain(before, choices=False), plain(after, choices=False), found)
    for change in found.classes:
        if change in ("narrower", "steering", "wider"):
            findings.add("output", "its output schema changed")
        else:
            findings.add(change)
    findings.told += (sentence for sentence in found.told if sentence not in findings.told)


def _annotations(findings: Findings, before: Any, after: Any) -> None:
    old, new = before or {}, after or {}
    for name in sorted(old.keys() | new.keys()):
        if name in old and name in new and same(old[name], new[name]):
            continue
        if name == "title":
            _read(findings, name, old.get(name), new.get(name))
            continue
        usual, safer, says = _HINTS.get(name, (None, None, ""))
        meant, means = (_meant(hints.get(name), usual, safer) for hints in (old, new))
        if says and means is safer and meant is not safer:
            findings.add("safer_annotations", f"it says now that it {says}")
        else:
            findings.add("other_annotations", "its annotations changed")
            if name not in _HINTS and new_prose({name: old.get(name)}, {name: new.get(name)}):
                findings.add("description")
    if not old and not new:
        findings.add("other_annotations", "its annotations changed")


def _meant(hint: Any, usual: bool | None, safer: bool | None) -> bool | None:
    """Return the value that a host may read from a hint: a non-boolean may count as the safer one."""
    return usual if hint is None else hint if isinstance(hint, bool) else safer


def _icons(findings: Findings, before: Any, after: Any) -> None:
    if isinstance(before, list) and isinstance(after, list):
        origins = {_origin(icon) for icon in before}
        if None not in origins and after and {_origin(icon) for icon in after} <= origins:
            findings.add("cosmetic", "its icon changed, at the same origin")
            return
    findings.add("other", "its icon changed")
    if new_prose(_without_addresses(before), _without_addresses(after)):
        findings.add("description")


def _without_addresses(icons: Any) -> list[Any]:
    """Return icons without their addresses, which a host follows and no model reads."""
    shown = icons if isinstance(icons, list) else []
    return [{n: v for n, v in icon.items() if n != "src"} if isinstance(icon, dict) else icon for icon in shown]


def _origin(icon: Any) -> tuple[str, str] | None:
    """Return scheme and authority of a plain icon at an address; None for any other."""
    if not isinstance(icon, dict) or not _ICON.issuperset(icon):
        return None
    try:
        address = urlsplit(icon.get("src"))
    except (ValueError, TypeError, AttributeError):
        return None
    if not isinstance(address.scheme, str) or address.scheme not in ("https", "http") or not address.netloc:
        return None
    rest = {name: value for name, value in icon.items() if name != "src"}
    return None if new_prose(None, rest) else (address.scheme, address.netloc)


def _prompt_arguments(findings: Findings, before: Any, after: Any) -> None:
    old, new = _by_name(before), _by_name(after)
    if old is None or new is None:
        findings.add("wider", "its arguments changed")
        findings.add("description")
        return
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            findings.add("wider")
            findings.added.append(name)
        elif name not in new:
            findings.add("narrower")
            findings.removed.append(name)
            if old[name].get("required") is True:
                findings.add("wider")
        elif not same(old[name], new[name]):
            _prompt_argument(findings, name, old[name], new[name])
    if list(old) != list(new) and old.keys() == new.keys():
        findings.add("cosmetic", "the order of its arguments changed")


def _prompt_argument(findings: Findings, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for member in sorted(old.keys() | new.keys()):
        before, after = old.get(member), new.get(member)
        if (member in old) == (member in new) and same(before, after):
            continue
        if member == "required":
            if after is True:
                findings.add("steering")
                findings.required.append(name)
            elif before is True:
                findings.add("wider")
                findings.optional.append(name)
            else:
                findings.add("other", "its arguments changed")
        elif member in ("title", "description"):
            if same_but_for_spaces(before, after):
                findings.add("cosmetic", "white space in texts about its arguments changed")
            else:
                findings.add("description", "texts about its arguments changed")
        else:
            _other(findings, member, before, after, True)


def _by_name(listed: Any) -> dict[str, Mapping[str, Any]] | None:
    found: dict[str, Mapping[str, Any]] = {}
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            return None
        found[one["name"]] = one
    return found if isinstance(listed, list) and len(found) == len(listed) else None


# What a member means, of one kind or of any.
_MEMBERS: Final[dict[tuple[PinKind | None, str], Callable[[Findings, Any, Any], None]]] = {
    ("tool", "inputSchema"): _input,
    ("tool", "outputSchema"): _output,
    ("tool", "annotations"): _annotations,
    ("prompt", "arguments"): _prompt_arguments,
    (None, "icons"): _icons,
}
