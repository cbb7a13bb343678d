"""The building of a schema from the keywords alone that a model API knows."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aggregator.dialects.mend.apis import ModelApi
from aggregator.dialects.mend.flatten import both_of, different, flattened, short_json
from aggregator.dialects.mend.keys import renamed
from aggregator.dialects.mend.keywords import (
    ANNOTATIONS,
    ARRAYS,
    CONDITIONS,
    IN_STRICT,
    IN_SUBSET,
    OBJECTS,
    OF_TYPE,
    READ,
    cut_json,
    keyword_sentence,
    takes_text,
    type_of,
    types_of,
    values_sentence,
    with_sentences,
)
from aggregator.dialects.mend.read_back import Reader, merged
from aggregator.schemas.structure.local import at_pointer

Schema = dict[str, Any]

# Nodes of one schema, and the rounds of one reference in itself.
_NODES: Final = 2_000
# Names and values that count as one node: references may lead to the same many.
_NAMES: Final = 50
_ROUNDS: Final = 2
_HOPS: Final = 20
_LONG_ENUM: Final = 250

_LOOKS_ROUND: Final = re.compile(r"\(\?<?[=!]")
_JSON_OBJECT: Final = "A JSON object, written as text."
_JSON_VALUE: Final = "A JSON value, written as text (a string in quotes)."


class CannotMend(Exception):
    """An API accepts no form of a schema; the message says why, in words after the name of the tool."""


class _Built(NamedTuple):
    """A schema of the values that are not null; None if there are none. null: whether null is a value too."""

    schema: Schema | None
    reader: Reader | None = None
    null: bool = False


class Builder:
    """The building of one schema. `whole` is the object schema that references lead into; `changes` are words."""

    def __init__(self, api: ModelApi, whole: Mapping[str, Any]) -> None:
        self._api = api
        self._whole = whole
        self._left = _NODES
        self._properties = self._enum_values = self._characters = 0
        self.changes: dict[str, None] = {}

    def root(self) -> tuple[Schema, Reader | None]:
        """Return the mended schema and the way back of its arguments.

        Raises:
            CannotMend: it is too large for the API.
        """
        schema, reader, _ = self._object(self._whole, 0, (), root=True)
        assert schema is not None
        api = self._api
        if api.properties is not None and self._properties > api.properties:
            raise CannotMend(f"it has {self._properties:,} properties, and {api.title} takes {api.properties:,}")
        if api.characters is not None and self._characters > api.characters:
            raise CannotMend(f"its names and values are longer than the {api.characters:,} characters of {api.title}")
        return schema, reader

    def _node(self, schema: Any, depth: int, refs: tuple[str, ...]) -> _Built:
        self._spend()
        if schema is False:
            return _Built(None)
        if isinstance(schema, Mapping):
            schema, refs, recursive = self._resolved(schema, refs)
            if recursive:
                self._note("schemas that contain themselves")
                return self._cut(schema, "It may contain further ones of its kind.")
        if not isinstance(schema, Mapping) or ANNOTATIONS.issuperset(schema):
            return self._any(schema if isinstance(schema, Mapping) else {})
        if schema.get("not") in (True, {}):
            return _Built(None)
        if isinstance(schema.get("allOf"), list):
            self._note("`allOf`")
            schema = self._together(schema)
            if isinstance(schema.get("$ref"), str) or isinstance(schema.get("allOf"), list):
                return self._node(schema, depth, refs)
        if isinstance(schema.get("anyOf"), list) or isinstance(schema.get("oneOf"), list):
            return self._choice(schema, depth, refs)
        if isinstance(schema.get("enum"), list) or "const" in schema:
            return self._enum(schema, depth)
        return self._typed(schema, depth, refs)

    def _spend(self, nodes: int = 1) -> None:
        self._left -= nodes
        if self._left < 0:
            raise CannotMend("its schema is too large")

    # -- references and combinations

    def _resolved(self, schema: Mapping[str, Any], refs: tuple[str, ...]) -> tuple[Any, tuple[str, ...], bool]:
        """Return a schema with the target of its reference in place of it, and whether it is one round too many."""
        for _ in range(_HOPS):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema, refs, False
            self._note("references")
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            target = at_pointer(self._whole, reference)
            if not isinstance(target, Mapping):
                return (rest if target is None else target), refs, False
            if refs.count(reference) >= _ROUNDS:
                return {**target, **rest}, refs, True
            refs = (*refs, reference)
            own = {key: value for key, value in rest.items() if key not in ANNOTATIONS}
            said = {key: value for key, value in rest.items() if key in ANNOTATIONS}
            schema = {**(target if not own else {"allOf": [target, own]}), **said}
        return {}, refs, False

    def _together(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema with the parts of its `allOf` in it, as far as they can be written as one."""
        parts = [part for part in schema["allOf"] if part not in (True, {})]
        one: Any = {key: value for key, value in schema.items() if key != "allOf"}
        said = {key: value for key, value in one.items() if key in ANNOTATIONS}
        if one.keys() <= ANNOTATIONS and len(parts) == 1 and isinstance(parts[0], Mapping):
            return {**parts[0], **said}
        resolved = [self._pointed(part) for part in parts]
        known = [part for part in resolved if isinstance(part, Mapping)]
        options = (part.get("enum") for part in known)
        self._spend(sum(len(some) for some in options if isinstance(some, list)) // _NAMES)
        if any("properties" in part or part.get("type") == "object" for part in known):
            flat = flattened({**schema, "allOf": resolved}, self._whole)
            return with_sentences(flat.schema, flat.rules)
        rules = []
        for part in resolved:
            both = both_of({key: value for key, value in one.items() if key not in ANNOTATIONS}, part)
            if part is False:
                return {"not": {}}
            if not isinstance(both, Mapping) or "allOf" in both:
                rules.append(f"It also fits {short_json(part)}.")
            else:
                one = {**both, **said}
        return with_sentences(dict(one), rules)

    def _pointed(self, part: Any) -> Any:
        for _ in range(_HOPS):
            reference = part.get("$ref") if isinstance(part, Mapping) else None
            target = at_pointer(self._whole, reference) if isinstance(reference, str) else None
            if target is None:
                return part
            part = target
        return part

    def _choice(self, schema: Mapping[str, Any], depth: int, refs: tuple[str, ...]) -> _Built:
        keyword = "anyOf" if isinstance(schema.get("anyOf"), list) else "oneOf"
        if keyword == "oneOf":
            self._note("`oneOf`")
        own = {key: value for key, value in schema.items() if key not in ANNOTATIONS and key not in ("anyOf", "oneOf")}
        said = {key: value for key, value in schema.items() if key in ANNOTATIONS}
        if own.get("type") == "object" or not OBJECTS.isdisjoint(own):
            flat = flattened(schema, self._whole)
            return self._object(with_sentences(flat.schema, flat.rules), depth, refs)
        branches = schema[keyword]
        rules = []
        if keyword == "anyOf" and isinstance(schema.get("oneOf"), list):
            rules.append(f"It also fits one of {short_json(schema['oneOf'])}.")
        if own:
            branches = [self._pointed(branch) for branch in branches]
            branches = [both_of(own, branch) if isinstance(branch, Mapping) else branch for branch in branches]
        return self._union([self._node(branch, depth, refs) for branch in branches], with_sentences(said, rules))

    def _union(self, found: Sequence[_Built], said: Mapping[str, Any]) -> _Built:
        """Return the schema of the values that fit any of these."""
        null = any(one.null for one in found)
        known = [one for one in found if one.schema is not None]
        if any(one.reader is None or one.reader.text is None for one in known if takes_text(one.schema)):
            # A text could not be told from JSON in a text.
            known = [one for one in known if one.reader is None or one.reader.text is None]
        built = [one.schema for one in known if one.schema is not None]
        schemas: list[Schema] = different(part for one in built for part in one.get("anyOf") or [one])
        if not schemas:
            return _Built(None, None, null)
        reader = merged(one.reader for one in known)
        if len(schemas) == 1:
            return _Built(self._described(dict(schemas[0]), said, outer=True), reader, null)
        if self._api.subset:
            # Nothing may stand beside `anyOf`.
            schemas[0] = self._described(dict(schemas[0]), said, outer=True)
            return _Built({"anyOf": schemas}, reader, null)
        return _Built(self._described({"anyOf": schemas}, said), reader, null)

    # -- values

    def _any(self, said: Mapping[str, Any]) -> _Built:
        """Return the schema of any value."""
        self._note("values of any type")
        if self._api.strict:
            text = self._described({"type": "string"}, said, [_JSON_VALUE])
            return _Built(text, Reader(text="any"))
        kinds: list[Schema] = [{"type": kind} for kind in ("string", "number", "boolean", "object")]
        kinds[0] = self._described(kinds[0], said)
        return _Built({"anyOf": [*kinds, {"type": "array", "items": {"type": "string"}}]}, None, True)

    def _cut(self, schema: Mapping[str, Any], why: str) -> _Built:
        """Return the schema of a value that is too deep to be described."""
        if self._api.strict:
            is_object = schema.get("type") == "object" or "properties" in schema
            said = _JSON_OBJECT if is_object else _JSON_VALUE
            text = self._described({"type": "string"}, schema, [said, why])
            return _Built(text, Reader(text="object" if is_object else "any"))
        kinds = types_of(schema)
        if kinds == ["array"]:
            return _Built(self._described({"type": "array", "items": {"type": "string"}}, schema, [why]))
        return _Built(self._described({"type": "object"}, schema, [why]))

    def _enum(self, schema: Mapping[str, Any], depth: int) -> _Built:
        """Return the schema of some values, by their types."""
        if "const" in schema:
            self._note("`const`")
        values = [schema["const"]] if "const" in schema else schema["enum"]
        self._spend(len(values) // _NAMES)
        allowed = types_of(schema)
        null = any(value is None for value in values)
        by_kind: dict[str, list[Any]] = {}
        for value in values:
            kind = type_of(value)
            if kind != "null" and (not allowed or kind in allowed or (kind == "integer" and "number" in allowed)):
                by_kind.setdefault(kind, []).append(value)
        if not by_kind:
            return _Built(None, None, null)
        if "object" in by_kind or "array" in by_kind:
            built = self._any({key: value for key, value in schema.items() if key in ANNOTATIONS})
            return built._replace(schema=self._said(built.schema, values_sentence(values)))
        if "integer" in by_kind and "number" in by_kind:
            by_kind["number"] = by_kind.pop("integer") + by_kind["number"]
        said = {key: value for key, value in schema.items() if key in ANNOTATIONS}
        found = [_Built(self._some(kind, some)) for kind, some in by_kind.items()]
        return self._union(found, said)._replace(null=null)

    def _some(self, kind: str, values: list[Any]) -> Schema:
        if self._api.subset and kind != "string":
            self._note("values that are no texts in `enum`")
            return self._described({"type": kind}, {}, [values_sentence(values)])
        values = list(dict.fromkeys(values)) if kind == "string" else values
        if self._api.subset and "" in values:
            self._note("the empty text in `enum`")
            values = [value for value in values if value]
        self._enum_values += len(values)
        length = sum(len(value) for value in values if isinstance(value, str))
        api = self._api
        too_many = api.enum_values is not None and self._enum_values > api.enum_values
        too_long = api.enum_characters is not None and len(values) > _LONG_ENUM and length > api.enum_characters
        if not values or too_many or too_long:
            self._enum_values -= len(values)
            if values:
                self._note("an `enum` that is too long")
            return self._described({"type": kind}, {}, [values_sentence(values)] if values else [])
        self._characters += length
        return {"type": kind, "enum": values}

    def _typed(self, schema: Mapping[str, Any], depth: int, refs: tuple[str, ...]) -> _Built:
        kinds = types_of(schema)
        null = "null" in kinds or schema.get("nullable") is True
        if isinstance(schema.get("type"), list):
            self._note("types in lists")
        kinds = [kind for kind in kinds if kind != "null"]
        if not kinds:
            # Only null, or keywords without a type.
            return _Built(None, None, True) if null else self._say_rest(self._any(schema), schema, frozenset())
        if len(kinds) == 1:
            return self._of_kind(kinds[0], schema, depth, refs)._replace(null=null)
        bare = {key: value for key, value in schema.items() if key not in ANNOTATIONS and key != "nullable"}
        found = []
        for kind in kinds:
            others = frozenset().union(*(OF_TYPE[other] for other in kinds if other != kind)) - OF_TYPE[kind]
            part = {key: value for key, value in bare.items() if key not in others}
            found.append(self._of_kind(kind, part, depth, refs))
        said = {key: value for key, value in schema.items() if key in ANNOTATIONS}
        return self._union(found, said)._replace(null=null)

    def _of_kind(self, kind: str, schema: Mapping[str, Any], depth: int, refs: tuple[str, ...]) -> _Built:
        if kind == "object":
            return self._object(schema, depth, refs)
        if kind == "array":
            return self._array(schema, depth, refs)
        return self._leaf(kind, schema)

    def _leaf(self, kind: str, schema: Mapping[str, Any]) -> _Built:
        found: Schema = {"type": kind}
        rules = []
        known = IN_STRICT if self._api.strict else IN_SUBSET
        for key in sorted(OF_TYPE[kind] & schema.keys()):
            value = schema[key]
            if key == "format" and isinstance(value, str):
                if self._api.formats is None or value in self._api.formats:
                    found[key] = value
                else:
                    self._note("formats")
                    rules.append(f"Format: {value}.")
            elif key in known and not (key == "pattern" and _LOOKS_ROUND.search(str(value))):
                found[key] = value
            elif key == "exclusiveMinimum" and kind == "integer" and type(value) is int:
                self._note("exclusive bounds")
                found["minimum"] = max(value + 1, found.get("minimum", value + 1))
            elif key == "exclusiveMaximum" and kind == "integer" and type(value) is int:
                self._note("exclusive bounds")
                found["maximum"] = min(value - 1, found.get("maximum", value - 1))
            elif key not in READ:
                self._note(f"`{key}`")
                rules.append(keyword_sentence(key, value))
        if kind == "integer" and not self._api.strict:
            for bound in ("minimum", "maximum"):
                if bound in schema and bound in found:
                    pick = max if bound == "minimum" else min
                    found[bound] = pick(found[bound], schema[bound])
        return self._say_rest(_Built(self._described(found, schema, rules)), schema, OF_TYPE[kind])

    def _array(self, schema: Mapping[str, Any], depth: int, refs: tuple[str, ...]) -> _Built:
        if self._api.depth is not None and depth >= self._api.depth - 1:
            self._note("nesting that is too deep")
            return self._cut({**schema, "type": "array"}, "Its items are not described.")
        rules = []
        first, items = schema.get("prefixItems"), schema.get("items", {})
        if isinstance(first, list) and first:
            self._note("tuples")
            rules.append(f"The items in order: {short_json(first)}.")
            parts = [self._node(part, depth + 1, refs) for part in first]
            parts += [self._node(items, depth + 1, refs)] if isinstance(items, Mapping) and items else []
            inside = self._union(parts, {})
        else:
            if "items" not in schema:
                self._note("arrays without `items`")
            inside = self._node(items, depth + 1, refs)
        part, reader = self._with_null(inside), inside.reader
        found: Schema = {"type": "array", "items": part if part is not None else {"type": "string"}}
        known = IN_STRICT if self._api.strict else IN_SUBSET
        for key in sorted(ARRAYS & schema.keys() - READ):
            if key in known:
                found[key] = schema[key]
            else:
                self._note(f"`{key}`")
                rules.append(keyword_sentence(key, schema[key]))
        back = Reader(items=reader) if reader is not None and not reader.does_nothing else None
        return self._say_rest(_Built(self._described(found, schema, rules), back), schema, ARRAYS)

    def _object(self, schema: Mapping[str, Any], depth: int, refs: tuple[str, ...], *, root: bool = False) -> _Built:
        api = self._api
        properties, required, rules = self._described_members(schema)
        others = schema.get("additionalProperties", True)
        if api.depth is not None and depth >= api.depth - 1:
            self._note("nesting that is too deep")
            return self._cut({**schema, "type": "object"}, f"It fits {short_json(schema)}.")
        if api.strict and not root and not properties and others is not False:
            self._note("objects with any members")
            text = self._described({"type": "string"}, schema, [_JSON_OBJECT, *rules])
            return self._say_rest(_Built(text, Reader(text="object")), schema, OBJECTS)
        names = renamed(properties, api.keys) if api.deep or root else {}
        if names:
            self._note("names of parameters")
        shown, reader = self._members(properties, names, required, depth, refs)
        found: Schema = {"type": "object"}
        if shown or root or api.strict:
            found["properties"] = shown
        needed = [names.get(name, name) for name in required if names.get(name, name) in shown]
        if api.strict:
            if reader is not None and reader.dropped:
                self._note("members that may be left out")
            found |= {"required": list(shown), "additionalProperties": False}
        elif needed:
            found["required"] = needed
        known = frozenset() if api.strict else IN_SUBSET
        for key in sorted(OBJECTS & schema.keys() - READ):
            if key in known and not root:
                found[key] = schema[key]
            else:
                self._note(f"`{key}`")
                rules.append(keyword_sentence(key, schema[key]))
        return self._say_rest(_Built(self._described(found, schema, rules), reader), schema, OBJECTS)

    def _described_members(self, schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
        """Return the members of an object, the names of those that are required, and sentences about all others.

        A strict API gets each required member described, with the schema of all others.
        """
        strict, rules = self._api.strict, list[str]()
        given = schema.get("properties")
        properties = dict(given) if isinstance(given, Mapping) else {}
        wanted = schema.get("required")
        required = [name for name in wanted if isinstance(name, str)] if isinstance(wanted, list) else []
        others = schema.get("additionalProperties", True)
        self._spend(len(required) // _NAMES)
        for name in required:
            if name not in properties and others is not False:
                self._note("`required` of members that are not described")
                if strict:
                    properties[name] = others if isinstance(others, Mapping) else {}
                else:
                    rules.append(f"Required too: {cut_json(name)}.")
        if "additionalProperties" in schema and not strict:
            self._note("`additionalProperties`")
        if isinstance(others, Mapping) and others:
            rules.append(f"Other members are {short_json(others)}.")
        return properties, [name for name in required if name in properties], rules

    def _members(
        self,
        properties: Mapping[str, Any],
        names: Mapping[str, str],
        required: Collection[str],
        depth: int,
        refs: tuple[str, ...],
    ) -> tuple[Schema, Reader | None]:
        """Return the schemas of members by their new names, and how to read them back; None if as they are."""
        strict = self._api.strict
        shown: Schema = {}
        readers: dict[str, tuple[str, Reader | None]] = {}
        dropped: set[str] = set()
        kept: set[str] = set()
        for name, part in properties.items():
            built = self._node(part, depth + 1, refs)
            if built.schema is None and not built.null:
                continue
            key, optional = names.get(name, name), name not in required
            self._properties += 1
            self._characters += len(key)
            written = self._with_null(built._replace(null=True) if strict and optional else built)
            assert written is not None
            shown[key] = written
            (dropped if strict and optional and not built.null else kept).add(key)
            if key != name or (built.reader is not None and not built.reader.does_nothing):
                readers[key] = name, built.reader
        return shown, Reader(readers, frozenset(dropped), frozenset(kept)) if readers or dropped or kept else None

    # -- writing

    def _with_null(self, built: _Built) -> Schema | None:
        """Return a schema that takes null too, if null is a value."""
        schema = built.schema
        if schema is None:
            if not built.null:
                return None
            return {"type": "null"} if self._api.strict else {"type": "string", "nullable": True}
        if not built.null:
            return schema
        if self._api.subset:
            if "anyOf" in schema:
                return {"anyOf": [{**schema["anyOf"][0], "nullable": True}, *schema["anyOf"][1:]]}
            return {**schema, "nullable": True}
        said = {key: schema[key] for key in ("description",) if key in schema}
        bare = {key: value for key, value in schema.items() if key not in said}
        if "anyOf" in bare:
            return {**said, "anyOf": [*bare["anyOf"], {"type": "null"}]}
        if "enum" in bare or bare.get("type") in ("object", "array"):
            return {**said, "anyOf": [bare, {"type": "null"}]}
        return {**schema, "type": [schema["type"], "null"]}

    def _described(
        self, schema: Schema, said: Mapping[str, Any], rules: Iterable[str] = (), *, outer: bool = False
    ) -> Schema:
        """Return a schema with a description: its own or its title, and sentences for the rules that it lost."""
        words = said.get("description")
        if not isinstance(words, str) or not words.strip():
            title = said.get("title")
            words = title if isinstance(title, str) else ""
        parts = [words, schema.get("description", "") if outer else "", *rules]
        for key in ("default", "title", "examples", "$schema", "deprecated", "readOnly", "writeOnly", "example"):
            if key in said:
                self._note(f"`{key}`")
        if "default" in said:
            parts.append(f"Default: {cut_json(said['default'])}.")
        examples = said.get("examples")
        if isinstance(examples, list) and examples:
            parts.append(f"For example {', '.join(map(cut_json, examples[:2]))}.")
        text = " ".join(dict.fromkeys(part.strip() for part in parts if part and part.strip()))
        if text:
            schema = {**schema, "description": text}
        if "x-mcp-header" in said:
            schema = {**schema, "x-mcp-header": said["x-mcp-header"]}
        return schema

    def _said(self, schema: Schema | None, rule: str) -> Schema | None:
        """Return a schema with one more sentence."""
        if schema is None:
            return None
        if "anyOf" in schema and self._api.subset:
            return {"anyOf": [self._said(schema["anyOf"][0], rule), *schema["anyOf"][1:]]}
        return {**schema, "description": f"{schema.get('description', '')} {rule}".strip()}

    def _say_rest(self, built: _Built, schema: Mapping[str, Any], told: frozenset[str]) -> _Built:
        """Return a schema with sentences about conditions in it."""
        for key in CONDITIONS:
            if key in schema and built.schema is not None:
                self._note(f"`{key}`")
                built = built._replace(schema=self._said(built.schema, keyword_sentence(key, schema[key])))
        return built

    def _note(self, change: str) -> None:
        self.changes[change] = None
