"""Correct the usual mistakes of models: `"5"` for 5, JSON in a text, null for nothing, `maxItems` for `max_items`, the
arguments of a call inside a member `arguments`.

Law: what fits and names only declared members is never touched. A value is changed only if the schema surely does not
accept it, and only to its single possible meaning; a name only if the schema does not declare or cannot take it, and
declares one other spelling of it. Whether the outcome fits is for the check to say, before anything is sent.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from aggregator.domain.names import loosened
from aggregator.domain.text.caseless import caseless
from aggregator.schemas.declared_names import LONGEST, DeclaredNames
from aggregator.schemas.expected import ANY_TYPE, COMPARED, SchemaReader, TooManySteps, list_of, mapping_of, takes
from aggregator.schemas.fault import UnusableSchema, step
from aggregator.schemas.read_text import UNCLEAR, read_text
from aggregator.schemas.structure.dialect import Dialect, dialect_of
from aggregator.schemas.structure.equality import hashable
from aggregator.schemas.wording import type_of

# What models write for the arguments of a call, the right name first, and for the name of the tool beside them.
HOLDERS: Final = (
    *("arguments", "parameters", "args", "input", "params", "arguments_json"),
    *("tool_input", "toolArguments", "tool_arguments", "kwargs", "payload"),
)
_NAMES: Final = frozenset({"name", "tool", "tool_name", "toolName", "function"})
# Levels of such members.
_HELD: Final = 3
_TEXT_LIMIT: Final = 100_000
# Characters of JSON in a text that are read in one step.
_CHARACTERS: Final = 200
# Characters of one that is read in the loose form, in one step.
_LOOSELY: Final = 40
_DEPTH: Final = 30
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
    schema: Mapping[str, Any], value: Any, names: DeclaredNames | None, *, lone: bool = True, tool: str = ""
) -> tuple[Any, Sequence[Correction]]:
    """Return the corrected value, new if it differs, and the changes.

    `names` are those of the schema; None leaves names that fit as they are. `lone`: a lone value may stand for a list
    of one, and a lone member for all arguments. `tool` is the tool's own name, which may stand beside the arguments.
    """
    try:
        dialect = dialect_of(schema)
    except UnusableSchema:
        return value, []
    work = _Coercion(schema, dialect, names, lone=lone)
    try:
        return work.of(schema, work.unwrapped(value, tool), "", 0), work.changed
    except TooManySteps:
        return value, []


class _Members(NamedTuple):
    """The names that all schemas of an object declare, and whether one of them has a schema for names of any kind."""

    declared: frozenset[str]
    are_free: bool


class _Coercion:
    """The correction of one value; `changed` are the changes so far."""

    def __init__(self, root: Mapping[str, Any], dialect: Dialect, names: DeclaredNames | None, *, lone: bool) -> None:
        self._root = root
        self._dialect = dialect
        self._names = names
        self._lone = lone
        self._schema = SchemaReader(root, dialect, _STEPS)
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
        parts = self._schema.applicable(self._root, value, 0)
        declared, needed = (
            self._schema.declared(parts),
            {name for part in parts for name in self._schema.required(part)},
        )
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
            self._schema.spend(len(inner) // _CHARACTERS)
            inner = read_text(inner, self._spend_loosely)
        if not isinstance(inner, dict):
            return None
        self._schema.spend((len(inner) + len(declared)) // COMPARED)
        known = {loosened(name) for name in declared if len(name) <= LONGEST}
        named = all(name in declared or (len(name) <= LONGEST and loosened(name) in known) for name in inner)
        if not (named or (not named_otherwise and any(name in HOLDERS for name in inner))):
            return None
        self.changed.append(Correction(step("", holder), "its members are the arguments"))
        return inner

    def of(self, schema: Any, value: Any, at: str, depth: int) -> Any:
        """Return the corrected value at a place."""
        self._schema.spend()
        if depth > _DEPTH or not isinstance(schema, Mapping) or self._schema.has_own_base(schema):
            return value
        kinds = self._schema.kinds(schema, 0)
        if not takes(kinds, value):
            meaning, done = self._meant(schema, kinds, value, at)
            if meaning is not UNCLEAR:
                self.changed.append(Correction(at, done))
                value = meaning
        if isinstance(value, str):
            return self._spelled(schema, value, at)
        parts = self._schema.applicable(schema, value, 0) if isinstance(value, dict | list) else ()
        if isinstance(value, dict):
            members = _Members(self._schema.declared(parts), any(map(_has_free_names, parts)))
            for part in parts:
                value = self._object(part, value, at, depth, members)
        elif isinstance(value, list):
            for part in parts:
                value = self._array(part, value, at, depth)
        return value

    def _object(
        self, schema: Mapping[str, Any], value: dict[str, Any], at: str, depth: int, members: _Members
    ) -> dict[str, Any]:
        """Return an object with its members corrected. `members` are those of all schemas that it must fit."""
        properties = mapping_of(schema, "properties")
        others = schema.get("additionalProperties") if "patternProperties" not in schema else None
        required = self._schema.required(schema)
        renamed = self._renamed(schema, value, members, required)
        new: dict[str, Any] = {}
        for name, part in value.items():
            own = renamed.get(name, name)
            if own != name:
                self.changed.append(Correction(step(at, name), f"as {own!r:.80}"))
            if own in properties:
                of_name = properties[own]
                kinds = self._schema.kinds(of_name, 0)
                drop = own not in required and self._means_nothing(of_name, kinds, part)
            else:
                of_name = others
                drop = part is None and others is False and name not in members.declared
            if drop:
                said = "an empty text" if isinstance(part, str) and not part.strip() else "null"
                self.changed.append(Correction(step(at, name), f"{said} as absent"))
            else:
                new[own] = self.of(of_name, part, step(at, name), depth + 1)
        return new if renamed or _differs(new, value) else value

    def _means_nothing(self, schema: Any, kinds: frozenset[str], part: Any) -> bool:
        """Return whether a member that may be absent has a value for nothing, which its schema does not accept."""
        if isinstance(part, str) and not part.strip():
            options = self._schema.texts(schema, 0) if "string" in kinds else frozenset[str]()
            return options is not None and part not in options
        means_nothing = part is None or (isinstance(part, str) and part in ("null", "None"))
        return means_nothing and not kinds & {"null", type_of(part)}

    def _renamed(
        self, schema: Mapping[str, Any], value: Mapping[str, Any], members: _Members, required: frozenset[str]
    ) -> Mapping[str, str]:
        """Return the declared names of members that are written in another case or with other signs between words.

        If the schema takes no others, or needs the declared one, the name cannot stay. Else it could, but most servers
        ignore what they do not know, and so would make the edit that `dry_run` for `dryRun` should only show.
        """
        unknown = [name for name in value if name not in members.declared]
        missing = [name for name in mapping_of(schema, "properties") if name not in value]
        if not unknown or not missing or "patternProperties" in schema:
            return {}
        self._schema.spend(len(unknown) + len(missing))
        if _is_closed(schema):
            return _pairs(unknown, missing)
        needed = _pairs(unknown, [name for name in missing if name in required])
        if members.are_free or self._names is None:
            return needed
        pairs = _pairs([name for name in unknown if name not in self._names], missing)
        self._schema.spend(len(members.declared) // COMPARED if pairs else 0)
        alone = _pairs(pairs, list(members.declared)) if pairs else {}
        return {**alone, **needed}

    def _spend_loosely(self, characters: int) -> None:
        self._schema.spend(characters // _LOOSELY)

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
        self._schema.spend(len(value))
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
            self._schema.spend(len(value) // _CHARACTERS)
            read = read_text(value, self._spend_loosely)
            if type_of(read) == "integer" and isinstance(read, float) and "number" not in kinds and abs(read) < _EXACT:
                read = int(read)
            if read is not UNCLEAR and takes(kinds, read):
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
        return any("format" in part for part in self._schema.applicable(schema, "", 0))

    def _listed(self, schema: Mapping[str, Any], value: Any, at: str) -> Any:
        """Return a list for a lone value, or for values between commas, if the schema's items surely accept that."""
        for part in self._schema.applicable(schema, [], 0):
            items = part.get("items")
            if not isinstance(items, Mapping) or "prefixItems" in part:
                continue
            kinds = self._schema.kinds(items, 0)
            if kinds == ANY_TYPE:
                continue
            if isinstance(value, str) and not value.lstrip().startswith(("[", "{")) and ("," in value or "\n" in value):
                return self._separated(items, kinds, value)
            if isinstance(value, str) and "string" in kinds:
                # The text of a list that is broken is no item.
                return UNCLEAR if value.lstrip().startswith(("[", "{")) or not value.strip() else [value]
            if takes(kinds, value) or self._meant(items, kinds, value, at)[0] is not UNCLEAR:
                return [value]
        return UNCLEAR

    def _separated(self, items: Mapping[str, Any], kinds: frozenset[str], text: str) -> Any:
        """Return the parts of a text between commas, if these can be nothing else: a text with commas may be one."""
        parts = [one.strip() for one in text.split(",")]
        self._schema.spend(len(parts))
        options = self._schema.texts(items, 0) if "string" in kinds else frozenset[str]()
        if options is None or not all(
            part in options or ((read := read_text(part)) is not UNCLEAR and takes(kinds, read)) for part in parts
        ):
            return UNCLEAR
        return parts

    def _spelled(self, schema: Mapping[str, Any], text: str, at: str) -> str:
        """Return the one option that a text is, but for case or signs between words; the text itself if none is."""
        options = self._schema.texts(schema, 0)
        if options is None or text in options or len(text) > LONGEST:
            return text
        self._schema.spend(len(options) // COMPARED)
        near = [option for option in options if len(option) <= LONGEST]
        for form in (caseless, loosened):
            meant = form(text)
            same = [option for option in near if form(option) == meant]
            if len(same) == 1 and meant:
                self.changed.append(Correction(at, "another spelling of an option"))
                return same[0]
            if same:
                break
        return text


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
    return meant if takes(kinds, meant) else UNCLEAR


def _moment(schema: Mapping[str, Any], value: Any) -> str:
    """Return the time that a number of seconds or milliseconds since 1970 means where a `date-time` is wanted; empty
    for other values.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    options = [one for one in list_of(schema, "anyOf") if one != {"type": "null"}]
    wanted = options[0] if len(options) == 1 and isinstance(options[0], Mapping) else schema
    seconds = value / 1000 if _SECONDS[1] * 10 < value else value
    if wanted.get("format") != "date-time" or not _SECONDS[0] <= seconds <= _SECONDS[1]:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _differs(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    return len(new) != len(old) or any(new[name] is not old[name] for name in new)


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema takes no other members than those it names."""
    return schema.get("additionalProperties") is False and not schema.get("patternProperties")


def _has_free_names(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema says how members look that it does not name, so that their names are data."""
    return isinstance(schema.get("additionalProperties"), Mapping) or bool(schema.get("patternProperties"))


def _pairs(unknown: Iterable[str], missing: Iterable[str]) -> dict[str, str]:
    """Return the missing name for each unknown one that is the same in loosened form, if both are alone in that."""
    written: dict[str, list[str]] = {}
    meant: dict[str, list[str]] = {}
    for names, by_form in ((unknown, written), (missing, meant)):
        for name in names:
            if len(name) <= LONGEST:
                by_form.setdefault(loosened(name.strip()), []).append(name)
    return {
        names[0]: meant[form][0]
        for form, names in written.items()
        if form and len(names) == 1 and len(meant.get(form, ())) == 1
    }


def _is_name_of(value: Any, tool: str) -> bool:
    """Return True for the name of the tool, alone or behind that of its server."""
    if not isinstance(value, str) or len(value) > LONGEST:
        return False
    meant = loosened(tool)
    return bool(meant) and loosened(value).endswith(meant)
