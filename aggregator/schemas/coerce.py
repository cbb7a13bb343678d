"""Correct the usual mistakes of models: `"5"` for 5, JSON in a text, null for nothing, `maxItems` for `max_items`, the
arguments of a call inside a member `arguments`.

Law: what fits is never touched. A value is changed only if the schema surely does not accept it, and only to its single
possible meaning. Whether the outcome fits is for the check to say, before anything is sent.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from aggregator.domain.names import loosened
from aggregator.domain.text.caseless import caseless
from aggregator.schemas.fault import UnusableSchema, step
from aggregator.schemas.read_text import UNCLEAR, read_text
from aggregator.schemas.structure.dialect import Dialect, dialect_of
from aggregator.schemas.structure.equality import hashable
from aggregator.schemas.structure.local import resolve_reference
from aggregator.schemas.wording import type_of, types_of

_ALL: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
# What models write for the arguments of a call, the right name first, and for the name of the tool beside them.
HOLDERS: Final = (
    *("arguments", "parameters", "args", "input", "params", "arguments_json"),
    *("tool_input", "toolArguments", "tool_arguments", "kwargs", "payload"),
)
_NAMES: Final = frozenset({"name", "tool", "tool_name", "toolName", "function"})
# Levels of such members.
_HELD: Final = 3
_TEXT_LIMIT: Final = 100_000
# Characters of JSON in a text that are read, and names that are compared, in one step. Longer names and options are
# not compared.
_CHARACTERS: Final = 200
# Characters of one that is read in the loose form, in one step.
_LOOSELY: Final = 40
_COMPARED: Final = 8
_DEPTH: Final = 30
_SCHEMA_DEPTH: Final = 8
_STEPS: Final = 2_000
# Words for true and false, with the numbers; a number with a sign, zeros or `_` more; characters of a word, and digits
# that a float keeps.
_BOOLEANS: Final[Mapping[Any, bool]] = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on", 1), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off", 0), False),
}
_WORD: Final = 24
# Seconds since 1970 that are surely meant as such: from 1973 to 2286. A thousand times as many are milliseconds.
_SECONDS: Final = (10**8, 10**10)
# Items of a list that are made one of each.
_SET: Final = 1_000
_DIGITS: Final = 15
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)", re.ASCII)
# The place of an id, or of one in a list of them. A server may have ids of digits as texts.
_IDENTIFIER: Final = re.compile(r"(?:[/_.-](?:id|iid|uid|ID)s?|[a-z](?:Id|ID|Iid|Uid)s?)(?:/\d{1,9})?$")
# Larger whole numbers are no longer exact as a float.
_EXACT: Final = 2**53


class Correction(NamedTuple):
    """A change: the place in the arguments, as a JSON pointer, and what was done in a few words."""

    pointer: str
    done: str

    def __str__(self) -> str:
        return f"{self.pointer or 'the whole'}: {self.done}"


def coerce(
    schema: Mapping[str, Any], value: Any, *, lone: bool = True, tool: str = ""
) -> tuple[Any, Sequence[Correction]]:
    """Return the corrected value, new if it differs, and the changes.

    `lone`: a lone value may stand for a list of one, and a lone member for all arguments. `tool` is the tool's own
    name, which may stand beside the arguments.
    """
    try:
        dialect = dialect_of(schema)
    except UnusableSchema:
        return value, []
    work = _Coercion(schema, dialect, lone=lone)
    try:
        return work.of(schema, work.unwrapped(value, tool), "", 0), work.changed
    except _TooMuch:
        return value, []


class _TooMuch(Exception):
    """The schema takes too long to read, or the value is very large: it stays as it came."""


class _Coercion:
    """The correction of one value; `changed` are the changes so far."""

    def __init__(self, root: Mapping[str, Any], dialect: Dialect, *, lone: bool) -> None:
        self._root = root
        self._dialect = dialect
        self._lone = lone
        self._left = _STEPS
        self._known: dict[int, frozenset[str]] = {}
        self.changed: list[Correction] = []

    def unwrapped(self, value: Any, tool: str) -> Any:
        """Return the arguments inside a member that holds them all, if the tool has no such argument."""
        for _ in range(_HELD):
            inner = self._inside(value, tool) if isinstance(value, dict) else None
            if inner is None:
                break
            value = inner
        return value

    def _inside(self, value: dict[str, Any], tool: str) -> dict[str, Any] | None:
        """Return the object in the one member that can only hold all arguments, or None."""
        parts = self._applicable(self._root, value, 0)
        declared, needed = self._declared(parts), {name for part in parts for name in self._required(part)}
        holders: list[str] = [name for name in HOLDERS if name in value and name not in declared]
        # Through meta tools, any other name holds them too, if nothing stands beside it and all that is needed inside.
        named_otherwise = self._lone and not holders and len(value) == 1 and declared.isdisjoint(value)
        holders = list(value) if named_otherwise else holders
        if len(holders) != 1 or not (needed - value.keys() or any(map(_is_closed, parts))):
            return None
        (holder,) = holders
        for name in value.keys() - {holder}:
            if name in declared or name not in _NAMES or not _is_name_of(value[name], tool):
                return None
        inner = value[holder]
        if named_otherwise and not (isinstance(inner, dict) and needed and needed <= inner.keys()):
            return None
        if isinstance(inner, str) and len(inner) <= _TEXT_LIMIT:
            self._spend(len(inner) // _CHARACTERS)
            inner = read_text(inner, self._spend_loosely)
        if not isinstance(inner, dict):
            return None
        self._spend((len(inner) + len(declared)) // _COMPARED)
        known = {loosened(name) for name in declared if len(name) <= _CHARACTERS}
        named = all(name in declared or (len(name) <= _CHARACTERS and loosened(name) in known) for name in inner)
        if not (named or (not named_otherwise and any(name in HOLDERS for name in inner))):
            return None
        self.changed.append(Correction(step("", holder), "its members are the arguments"))
        return inner

    def of(self, schema: Any, value: Any, at: str, depth: int) -> Any:
        """Return the corrected value at a place."""
        self._spend()
        if depth > _DEPTH or not isinstance(schema, Mapping) or self._has_own_base(schema):
            return value
        kinds = self._kinds(schema, 0)
        if not _takes(kinds, value):
            meaning, done = self._meant(schema, kinds, value, at)
            if meaning is not UNCLEAR:
                self.changed.append(Correction(at, done))
                value = meaning
        if isinstance(value, str):
            return self._spelled(schema, value, at)
        parts = self._applicable(schema, value, 0) if isinstance(value, dict | list) else ()
        declared = self._declared(parts) if isinstance(value, dict) else frozenset()
        for part in parts:
            if isinstance(value, dict):
                value = self._object(part, value, at, depth, declared)
            elif isinstance(value, list):
                value = self._array(part, value, at, depth)
        return value

    def _object(
        self, schema: Mapping[str, Any], value: dict[str, Any], at: str, depth: int, declared: frozenset[str]
    ) -> dict[str, Any]:
        """Return an object with its members corrected. `declared` are the names of all schemas that it must fit."""
        properties = _mapping(schema, "properties")
        others = schema.get("additionalProperties") if "patternProperties" not in schema else None
        required = self._required(schema)
        renamed = self._renamed(schema, value, declared, required)
        new: dict[str, Any] = {}
        for name, part in value.items():
            own = renamed.get(name, name)
            if own != name:
                self.changed.append(Correction(step(at, name), f"as {own!r:.80}"))
            if own in properties:
                of_name = properties[own]
                kinds = self._kinds(of_name, 0)
                means_nothing = part is None or (isinstance(part, str) and part in ("null", "None"))
                drop = means_nothing and own not in required and not kinds & {"null", type_of(part)}
            else:
                of_name = others
                drop = part is None and others is False and name not in declared
            if drop:
                self.changed.append(Correction(step(at, name), "null as absent"))
            else:
                new[own] = self.of(of_name, part, step(at, name), depth + 1)
        return new if renamed or _differs(new, value) else value

    def _renamed(
        self,
        schema: Mapping[str, Any],
        value: Mapping[str, Any],
        declared: frozenset[str],
        required: frozenset[str],
    ) -> Mapping[str, str]:
        """Return the declared names of members that are written in another case or with other signs between words.

        Only of members that cannot stay: the schema takes no others, or needs the declared one.
        """
        unknown = [name for name in value if name not in declared]
        missing = [name for name in _mapping(schema, "properties") if name not in value]
        if not _is_closed(schema):
            missing = [name for name in missing if name in required]
        if not unknown or not missing or "patternProperties" in schema:
            return {}
        self._spend(len(unknown) + len(missing))
        return _pairs(unknown, missing)

    def _array(self, schema: Mapping[str, Any], value: list[Any], at: str, depth: int) -> list[Any]:
        items, first = schema.get("items"), schema.get("prefixItems")
        if first is None and isinstance(items, Mapping):
            new = [self.of(items, part, step(at, number), depth + 1) for number, part in enumerate(value)]
        elif isinstance(first, list) and self._dialect >= Dialect.DRAFT_2020_12:
            new = [
                self.of(first[number] if number < len(first) else items, part, step(at, number), depth + 1)
                for number, part in enumerate(value)
            ]
        else:
            new = value
        if any(one is not other for one, other in zip(new, value, strict=True)):
            value = new
        return self._as_set(value, at) if schema.get("uniqueItems") is True else value

    def _as_set(self, value: list[Any], at: str) -> list[Any]:
        """Return a list of which the schema takes no item twice: it means a set."""
        self._spend(len(value))
        if len(value) > _SET or not all(isinstance(one, str | int | float) for one in value):
            return value
        once: dict[Any, Any] = {}
        for one in value:
            once.setdefault(hashable(one), one)
        if len(once) == len(value):
            return value
        self.changed.append(Correction(at, "each item once"))
        return list(once.values())

    def _meant(self, schema: Mapping[str, Any], kinds: frozenset[str], value: Any, at: str) -> tuple[Any, str]:
        """Return the one thing that a value of another type can mean, or `UNCLEAR`, and what was done."""
        if isinstance(value, str) and len(value) <= _TEXT_LIMIT:
            self._spend(len(value) // _CHARACTERS)
            read = read_text(value, self._spend_loosely)
            if type_of(read) == "integer" and isinstance(read, float) and "number" not in kinds and abs(read) < _EXACT:
                read = int(read)
            if read is not UNCLEAR and _takes(kinds, read):
                return read, f"text to {type_of(read)}"
        read = _read_laxly(kinds, value)
        if read is not UNCLEAR:
            return read, f"{type_of(value) if not isinstance(value, str) else 'text'} to {type_of(read)}"
        if "string" in kinds and (moment := _moment(schema, value)):
            return moment, "seconds since 1970 to a time"
        if "string" in kinds and type(value) is int and _IDENTIFIER.search(at) and not self._has_format(schema):
            return str(value), "integer to text"
        if self._lone and "array" in kinds and value is not None and not isinstance(value, list):
            return self._listed(schema, value, at), "to a list"
        return UNCLEAR, ""

    def _has_format(self, schema: Mapping[str, Any]) -> bool:
        """Tell whether a text must have a format, which the digits of a number hardly have."""
        return any("format" in part for part in self._applicable(schema, "", 0))

    def _listed(self, schema: Mapping[str, Any], value: Any, at: str) -> Any:
        """Return a list for a lone value, or for values between commas, if the schema's items surely accept that."""
        for part in self._applicable(schema, [], 0):
            items = part.get("items")
            if not isinstance(items, Mapping) or "prefixItems" in part:
                continue
            kinds = self._kinds(items, 0)
            if kinds == _ALL:
                continue
            if isinstance(value, str) and not value.lstrip().startswith(("[", "{")) and ("," in value or "\n" in value):
                return self._separated(items, kinds, value)
            if isinstance(value, str) and "string" in kinds:
                # The text of a list that is broken is no item.
                return UNCLEAR if value.lstrip().startswith(("[", "{")) or not value.strip() else [value]
            if _takes(kinds, value) or self._meant(items, kinds, value, at)[0] is not UNCLEAR:
                return [value]
        return UNCLEAR

    def _separated(self, items: Mapping[str, Any], kinds: frozenset[str], text: str) -> Any:
        """Return the parts of a text between commas, if these can be nothing else: a text with commas may be one."""
        parts = [one.strip() for one in text.split(",")]
        self._spend(len(parts))
        options = self._texts(items, 0) if "string" in kinds else frozenset[str]()
        if options is None or not all(
            part in options or ((read := read_text(part)) is not UNCLEAR and _takes(kinds, read)) for part in parts
        ):
            return UNCLEAR
        return parts

    def _spelled(self, schema: Mapping[str, Any], text: str, at: str) -> str:
        """Return the one option that a text is, but for case or signs between words; the text itself if none is."""
        options = self._texts(schema, 0)
        if options is None or text in options or len(text) > _CHARACTERS:
            return text
        self._spend(len(options) // _COMPARED)
        near = [option for option in options if len(option) <= _CHARACTERS]
        for form in (caseless, loosened):
            meant = form(text)
            same = [option for option in near if form(option) == meant]
            if len(same) == 1 and meant:
                self.changed.append(Correction(at, "another spelling of an option"))
                return same[0]
            if same:
                break
        return text

    def _texts(self, schema: Any, depth: int) -> frozenset[str] | None:
        """Return the texts that a schema could take; None for any."""
        if not isinstance(schema, Mapping) or depth > _SCHEMA_DEPTH or self._has_own_base(schema):
            return None
        self._spend()
        found: frozenset[str] | None = None
        if "$ref" in schema:
            target = self._resolved(schema)
            found = self._texts(target, depth + 1) if target is not schema else None
            if self._dialect <= Dialect.DRAFT_07:
                return found
        own = types_of(schema)
        if own and "string" not in own:
            return frozenset()
        if isinstance(schema.get("enum"), list):
            self._spend(len(schema["enum"]) // 4)
            found = _both(found, frozenset(option for option in schema["enum"] if isinstance(option, str)))
        if "const" in schema and self._dialect > Dialect.DRAFT_04:
            found = _both(found, frozenset(option for option in [schema["const"]] if isinstance(option, str)))
        for part in _list(schema, "allOf"):
            found = _both(found, self._texts(part, depth + 1))
        for keyword in ("anyOf", "oneOf"):
            options = [self._texts(option, depth + 1) for option in _list(schema, keyword)]
            known = [option for option in options if option is not None]
            if options and len(known) == len(options):
                found = _both(found, frozenset[str]().union(*known))
        return found

    def _spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooMuch

    def _spend_loosely(self, characters: int) -> None:
        self._spend(characters // _LOOSELY)

    def _declared(self, parts: Sequence[Mapping[str, Any]]) -> frozenset[str]:
        """Return the names of members that these schemas declare."""
        lists = [_mapping(part, "properties") for part in parts]
        self._spend(sum(map(len, lists)) // _COMPARED)
        return frozenset(name for names in lists for name in names)

    def _required(self, schema: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of members that a schema requires."""
        names = _list(schema, "required")
        self._spend(len(names) // _COMPARED)
        return frozenset(name for name in names if isinstance(name, str))

    def _has_own_base(self, schema: Mapping[str, Any]) -> bool:
        """Tell whether references inside the schema count from another place than the root."""
        return schema is not self._root and "$id" in schema

    def _resolved(self, schema: Any) -> Any:
        """Resolve a reference without sibling keywords, or with siblings that its dialect ignores."""
        if isinstance(schema, Mapping) and "$ref" in schema:
            target = resolve_reference(schema, self._root)
            if isinstance(target, Mapping) and "$ref" not in target:
                return target
        return schema

    def _kinds(self, schema: Any, depth: int) -> frozenset[str]:
        """Return the types that the schema could take; a type that is missing is surely not taken."""
        if not isinstance(schema, Mapping) or depth > _SCHEMA_DEPTH or self._has_own_base(schema):
            return _ALL
        known = self._known.get(id(schema))
        if known is None:
            self._spend()
            known = self._known[id(schema)] = self._kinds_of(schema, depth)
        return known

    def _kinds_of(self, schema: Mapping[str, Any], depth: int) -> frozenset[str]:
        kinds = _ALL
        if "$ref" in schema:
            target = self._resolved(schema)
            kinds = self._kinds(target, depth + 1) if target is not schema else _ALL
            if self._dialect <= Dialect.DRAFT_07:
                return kinds
        own = types_of(schema)
        if own:
            kinds &= frozenset(own) | (frozenset({"integer"}) if "number" in own else frozenset())
        if isinstance(schema.get("enum"), list):
            self._spend(len(schema["enum"]) // 4)
            kinds &= frozenset(type_of(option) for option in schema["enum"])
        if "const" in schema and self._dialect > Dialect.DRAFT_04:
            kinds &= {type_of(schema["const"])}
        for part in _list(schema, "allOf"):
            kinds &= self._kinds(part, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            options = _list(schema, keyword)
            self._spend(len(options) // 4)
            if options:
                kinds &= frozenset().union(*(self._kinds(option, depth + 1) for option in options))
        return kinds

    def _applicable(self, schema: Any, value: Any, depth: int) -> list[Mapping[str, Any]]:
        """Return the schemas that the value must fit to fit at all.

        Of alternatives there is only one that is left by its type.
        """
        self._spend()
        if not isinstance(schema, Mapping) or depth > _SCHEMA_DEPTH or self._has_own_base(schema):
            return []
        found: list[Mapping[str, Any]] = []
        if "$ref" in schema:
            target = self._resolved(schema)
            found += self._applicable(target, value, depth + 1) if target is not schema else []
            if self._dialect <= Dialect.DRAFT_07:
                return found
        found.append(schema)
        for part in _list(schema, "allOf"):
            found += self._applicable(part, value, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            self._spend(len(_list(schema, keyword)) // 4)
            left = [option for option in _list(schema, keyword) if _takes(self._kinds(option, depth + 1), value)]
            if len(left) == 1:
                found += self._applicable(left[0], value, depth + 1)
        return found


def _takes(kinds: frozenset[str], value: Any) -> bool:
    own = type_of(value)
    return own in kinds or (own == "integer" and "number" in kinds) or own not in _ALL


def _read_laxly(kinds: frozenset[str], value: Any) -> Any:
    """Return the boolean or the number that a value can only mean where these are wanted, or `UNCLEAR`.

    Servers that check with pydantic take all of these, in its lax mode.
    """
    if "boolean" in kinds and kinds <= {"boolean", "null"}:
        word = value.strip().lower() if isinstance(value, str) and len(value) <= _WORD else value
        if isinstance(word, str | int | float) and word in _BOOLEANS:
            return _BOOLEANS[word]
    if not isinstance(value, str) or len(value) > _WORD or _NUMBER.fullmatch(text := value.strip()) is None:
        return UNCLEAR
    if sum(sign.isdigit() for sign in text) > _DIGITS:
        return UNCLEAR
    number = float(text)
    meant = int(number) if number.is_integer() else number
    return meant if _takes(kinds, meant) else UNCLEAR


def _moment(schema: Mapping[str, Any], value: Any) -> str:
    """Return the time that a number of seconds or milliseconds since 1970 means where a `date-time` is wanted; empty
    for other values.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    options = [one for one in _list(schema, "anyOf") if one != {"type": "null"}]
    wanted = options[0] if len(options) == 1 and isinstance(options[0], Mapping) else schema
    seconds = value / 1000 if _SECONDS[1] * 10 < value else value
    if wanted.get("format") != "date-time" or not _SECONDS[0] <= seconds <= _SECONDS[1]:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _differs(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    return len(new) != len(old) or any(new[name] is not old[name] for name in new)


def _mapping(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, Mapping) else {}


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema takes no other members than those it names."""
    return schema.get("additionalProperties") is False and not schema.get("patternProperties")


def _pairs(unknown: Sequence[str], missing: Sequence[str]) -> dict[str, str]:
    """Return the missing name for each unknown one that is the same in loosened form, if both are alone in that."""
    written: dict[str, list[str]] = {}
    meant: dict[str, list[str]] = {}
    for names, by_form in ((unknown, written), (missing, meant)):
        for name in names:
            if len(name) <= _CHARACTERS:
                by_form.setdefault(loosened(name.strip()), []).append(name)
    return {
        names[0]: meant[form][0]
        for form, names in written.items()
        if form and len(names) == 1 and len(meant.get(form, ())) == 1
    }


def _is_name_of(value: Any, tool: str) -> bool:
    """Return True for the name of the tool, alone or behind that of its server."""
    if not isinstance(value, str) or len(value) > _CHARACTERS:
        return False
    meant = loosened(tool)
    return bool(meant) and loosened(value).endswith(meant)


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """Return the texts in both sets; None stands for any text."""
    return other if one is None else one if other is None else one & other
