"""Validate the tool list of one upstream: a small fault is repaired, a large one costs that tool only.

Law: a definition is passed on as it came wherever hosts can live with it, but for invisible characters.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from aggregator.catalog.describe.siblings import shared_beginning
from aggregator.catalog.invisible_characters import DefinitionCleaner
from aggregator.catalog.member_types import in_words, typed
from aggregator.catalog.schema_keywords import UnusableDefinition, dialect_of
from aggregator.catalog.schema_repair import means_object, repaired
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.names import Style, folded, listed_canonical, listed_compatible
from aggregator.domain.records import ToolRecord
from aggregator.domain.schema_walk import SCHEMA_DEPTH, Path, deeper_than, positions
from aggregator.domain.subschemas import SUBSCHEMAS_LIMIT, VALUES_LIMIT, size_fault
from aggregator.domain.text.error_text import error_text
from aggregator.wire.codec import TooDeep, encode_or_none, encode_sorted
from aggregator.wire.headers import ParamHeader, param_headers

# Repairs of one schema that a warning names.
_DONE_SHOWN: Final = 3
_DEPTH_LIMIT: Final = 200
_AS_OBJECTS: Final[Mapping[bool, Mapping[str, Any]]] = {True: {}, False: {"not": {}}}
# Characters of a description that identify siblings, and how many siblings a record holds.
_BEGINNING: Final = 24
_SIBLINGS: Final = 12
_REFERRING: Final = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"')


class InvalidDefinition(ValueError):
    """The tool cannot be shown; the message says why."""


def validate_tools(
    server: ServerConfig, definitions: list[Any], *, ambiguous: bool, name_limit: int
) -> tuple[tuple[ToolRecord, ...], list[str]]:
    """Return the tools of one server in its order, and a warning for each that was repaired or left out.

    `ambiguous`: another configured server's names could equal these when `.` is read as `_`.
    """
    return at_once(validate_tools_steps(server, definitions, ambiguous=ambiguous, name_limit=name_limit))


def validate_tools_steps(
    server: ServerConfig, definitions: list[Any], *, ambiguous: bool, name_limit: int
) -> Steps[tuple[tuple[ToolRecord, ...], list[str]]]:
    """Return the result of `validate_tools`, one definition in a step."""
    records: dict[str, ToolRecord] = {}
    warnings: list[str] = []
    taken: set[str] = set()
    seen: set[str] = set()
    names: set[str] = set()
    readings: Counter[str] = Counter()
    for definition in definitions:
        yield
        if isinstance(definition, dict) and isinstance(name := definition.get("name"), str) and name not in names:
            names.add(name)
            readings[folded(name)] += 1
    cleaning = DefinitionCleaner(server, "tool")
    for definition in definitions:
        yield
        try:
            name = _own_name(definition)
            if not is_taken(server, name):
                continue
            if name in seen:
                # Also if the first one cannot be shown: pins compare the first one.
                raise InvalidDefinition("the server lists it twice; the first one counts")
            seen.add(name)
            # What does not stand in the text is not looked for in the values.
            text = encode_or_none(definition)
            sound, faults = typed("tool", name, definition)
            mended, headers, notes = _repaired(sound, text, over_http=server.type != "stdio")
            if faults:
                notes.append(in_words(faults))
            if (fault := cleaning.fault(name, definition, text)) is not None:
                raise InvalidDefinition(fault)
            mended = cleaning.clean(name, mended, text)
        except InvalidDefinition as problem:
            warnings.append(f"{server.id}: tool {_name_shown(definition)} is left out: {problem}")
            continue
        warnings += [f"{server.id}: tool {name!r:.80} was mended: {note}" for note in notes]
        clashes = ambiguous or ("." in name and readings[folded(name)] > 1)
        listed: dict[Style, str] = {
            "canonical": listed_canonical(server.prefix, name, ambiguous=clashes),
            "compatible": listed_compatible(server.prefix, name, name_limit),
        }
        if not taken.isdisjoint(listed.values()):
            warnings.append(f"{server.id}: tool {name!r:.80} is left out: its shortened name is another tool's")
            continue
        taken.update(listed.values())
        records[name] = ToolRecord(
            server=server.id,
            prefix=server.prefix,
            own_name=name,
            definition=mended,
            listed=listed,
            timeout=time_limit(server, name),
            version=definition_digest(definition),
            param_headers=headers,
        )
    return (yield from _with_siblings(records.values())), warnings + cleaning.warnings()


def _with_siblings(records: Collection[ToolRecord]) -> Steps[tuple[ToolRecord, ...]]:
    """Return the records with how most descriptions begin, and of some others whose descriptions begin with the same
    words the definitions.
    """
    alike: dict[str, list[ToolRecord]] = {}
    shared = shared_beginning([record.definition.get("description") for record in records])
    for record in records:
        yield
        alike.setdefault(_beginning(record), []).append(record)
    told: list[ToolRecord] = []
    for record in records:
        yield
        others = alike[_beginning(record)]
        if len(others) > 1:
            near = islice((other.definition for other in others if other is not record), _SIBLINGS)
            record = replace(record, siblings=tuple(near))
        told.append(replace(record, shared=shared) if shared else record)
    return tuple(told)


def _beginning(record: ToolRecord) -> str:
    text = record.definition.get("description")
    return text[:_BEGINNING].casefold() if isinstance(text, str) else record.own_name


def definition_digest(definition: Any) -> str:
    """Return a tool's schema version, a digest of its definition in 32 hex digits.

    It differs when anything in the definition does but the order of names. A definition nested too deeply to be written
    counts as null. 128 bits: a server could make two definitions with one digest of 64, and swap them unseen.
    """
    try:
        text = encode_sorted(definition)
    except TooDeep:
        text = b"null"
    return blake2b(text, digest_size=16).hexdigest()


def _own_name(definition: Any) -> str:
    if not isinstance(definition, dict):
        raise InvalidDefinition("it is not an object")
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidDefinition("it has no name")
    return name


def is_taken(server: ServerConfig, name: str) -> bool:
    """Return whether the configuration takes a tool of that name from a server."""
    tools = server.tools
    included = not tools.include or any(fnmatchcase(name, pattern) for pattern in tools.include)
    return included and not any(fnmatchcase(name, pattern) for pattern in tools.exclude)


def time_limit(server: ServerConfig, *names: str) -> float:
    """Return the seconds that calls of a tool may take, by the first pattern that matches one of its names."""
    limits = server.tools.timeout.items()
    own = (seconds for pattern, seconds in limits if any(fnmatchcase(name, pattern) for name in names))
    return min(next(own, server.timeout), server.limits.max_timeout)


def _repaired(
    definition: dict[str, Any], text: bytes | None, *, over_http: bool
) -> tuple[dict[str, Any], dict[Path, ParamHeader], list[str]]:
    deep = _may_be_deep(text)
    if deep and deeper_than(definition, _DEPTH_LIMIT):
        raise InvalidDefinition(f"it is nested more than {_DEPTH_LIMIT} levels deep")
    execution = definition.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        # docs/decisions/0009-extensions.md
        raise InvalidDefinition("it can only be run as a task (`execution.taskSupport`), which is not passed on")
    notes: list[str] = []
    schema = definition.get("inputSchema")
    if schema is None:
        notes.append("it has no inputSchema; any object is taken")
        schema = {"type": "object"}
    elif not isinstance(schema, dict):
        raise InvalidDefinition("its inputSchema is not an object")
    elif "type" not in schema:
        notes.append('its inputSchema has no type; "object" was added')
        schema = {"type": "object", **schema}
    elif schema["type"] != "object":
        if not means_object(schema["type"]):
            raise InvalidDefinition(f"its inputSchema is of type {schema['type']!r:.80}, not 'object'")
        notes.append(f"its inputSchema was of type {schema['type']!r:.80}, which is 'object' now")
        schema = {**schema, "type": "object"}
    refers = text is None or any(keyword in text for keyword in _REFERRING)
    large = _may_be_large(text)
    _check_size(schema, "inputSchema", deep=deep, large=large)
    schema = _sound_schema(schema, "inputSchema", notes, refers=refers)
    headers: dict[Path, ParamHeader] = {}
    try:
        if text is None or b'"x-mcp-header"' in text:
            headers = param_headers(schema)
    except ValueError as problem:
        if over_http:
            # SH, Custom Headers: a client over HTTP must leave such a tool out.
            raise InvalidDefinition(error_text(problem)) from problem
        schema = _without_headers(schema)
        notes.append(f"{error_text(problem)}; the annotation was taken out")
    mended = definition if schema is definition.get("inputSchema") else {**definition, "inputSchema": schema}
    output = definition.get("outputSchema")
    if output is not None:
        try:
            if not isinstance(output, dict):
                raise InvalidDefinition("its outputSchema is not an object")
            _check_size(output, "outputSchema", deep=deep, large=large)
            sound = _sound_schema(output, "outputSchema", notes, refers=refers)
            mended = mended if sound is output else {**mended, "outputSchema": sound}
        except InvalidDefinition as problem:
            mended = {key: value for key, value in mended.items() if key != "outputSchema"}
            notes.append(f"{problem}; it is shown without outputSchema")
    return mended, headers, notes


def _may_be_deep(text: bytes | None) -> bool:
    return text is None or text.count(b"{") + text.count(b"[") > SCHEMA_DEPTH


def _may_be_large(text: bytes | None) -> bool:
    if text is None or (objects := text.count(b"{")) > SUBSCHEMAS_LIMIT:
        return True
    return len(text) > VALUES_LIMIT and objects + text.count(b"[") + text.count(b",") >= VALUES_LIMIT


def _check_size(schema: dict[str, Any], what: str, *, deep: bool, large: bool) -> None:
    """Check that values can be checked against a schema: `deep` and `large` say which of the two limits to check.

    Raises:
        InvalidDefinition: it is nested too deeply, or too large.
    """
    if deep and deeper_than(schema, SCHEMA_DEPTH):
        raise InvalidDefinition(f"its {what} is nested more than {SCHEMA_DEPTH} levels deep: no value can be checked")
    if large and (fault := size_fault(schema)) is not None:
        raise InvalidDefinition(f"no value can be checked against its {what}: {fault}")


def _sound_schema(schema: dict[str, Any], what: str, notes: list[str], *, refers: bool) -> dict[str, Any]:
    """Return the schema without faults; each repair is appended to `notes`.

    refers: the schema may have references.
    """
    dialect = dialect_of(schema.get("$schema"))
    if dialect is None:
        raise InvalidDefinition(f"the $schema of its {what}, {schema['$schema']!r:.120}, is not supported")
    try:
        mended, done = repaired(schema, dialect, refers=refers)
    except UnusableDefinition as problem:
        raise InvalidDefinition(f"its {what} cannot be used: {problem}") from None
    if done:
        more = f", and {len(done) - _DONE_SHOWN} more" if len(done) > _DONE_SHOWN else ""
        notes.append(f"in its {what}, {'; '.join(done[:_DONE_SHOWN])}{more}")
    return _with_objects(mended, what, notes)


def _with_objects(schema: dict[str, Any], what: str, notes: list[str]) -> dict[str, Any]:
    """Return the schema with an object for each property: hosts refuse a list with `true` or `false` there."""
    named = schema.get("properties")
    if not isinstance(named, dict) or not any(isinstance(value, bool) for value in named.values()):
        return schema
    notes.append(f"properties of its {what} that are true or false have an object that says the same")
    meant = {name: _AS_OBJECTS[value] if isinstance(value, bool) else value for name, value in named.items()}
    return {**schema, "properties": meant}


def _without_headers(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a copy without the `x-mcp-header` annotations; data of that name stays."""
    copy: dict[str, Any] = deepcopy(schema)
    for _, node in positions(copy):
        if isinstance(node, dict):
            node.pop("x-mcp-header", None)
    return copy


def _name_shown(definition: Any) -> str:
    name = definition.get("name") if isinstance(definition, dict) else definition
    return f"{name!r:.80}"
