"""The keywords of JSON Schema in the schemas of tools, by dialect: the values that each takes, and the check of them.

Rule: `is_sound` runs for every tool of every list. It reads each part of a schema once and makes no new objects.
"""

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple

TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
# Keywords by the shape of the schemas below them.
ONE: Final = frozenset(
    {"items", "additionalItems", "contains", "unevaluatedItems", "additionalProperties", "propertyNames"}
    | {"unevaluatedProperties", "not", "if", "then", "else", "contentSchema"}
)
SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
# Characters of a pattern that is compiled, to see whether it is one.
_LONGEST_PATTERN: Final = 2_000
# What Python says of patterns that are none in any dialect.
_NO_PATTERN: Final = re.compile(
    r"missing \)|unbalanced parenthesis|unterminated (?:character set|subpattern)|nothing to repeat|bad escape \(end"
    r"|bad character range [^\\]*\Z|min repeat greater|multiple repeat"
)
# What no validator refuses as an id, and the names of places (2020-12 core, 8.2.2; 2019-09 core, 8.2.3).
_URI_CHARACTER: Final = r"[A-Za-z0-9._~!$&'()*+,;=@/?#-]|%[0-9A-Fa-f]{2}"
_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]*"
_URI: Final = re.compile(
    rf"(?:{_SCHEME}:(?!//)|{_SCHEME}://[A-Za-z0-9.~_-]*(?::\d*)?(?=[/?#]|\Z))(?:{_URI_CHARACTER}|:)*"
    rf"|(?:{_URI_CHARACTER})*"
)
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")
_OLD_ANCHOR: Final = re.compile(r"[A-Za-z][-A-Za-z0-9.:_]*")
# Inside sets, Python warns of these; they are left alone.
_MAY_WARN: Final = re.compile(r"\[\[|--|&&|~~|\|\|")
# What ECMA 262 writes otherwise than Python, or has alone.
_ECMA: Final = ((re.compile(r"\(\?<(?![=!])"), "(?P<"), (re.compile(r"\\[pP]\{[^}]*\}|\\u\{[0-9A-Fa-f]+\}"), "x"))


class UnusableDefinition(ValueError):
    """A schema that cannot be used; the message says where and why."""


def _is_type(value: Any) -> bool:
    if value.__class__ is str:
        return value in TYPES
    return is_texts(value) and bool(value) and TYPES.issuperset(value)


def is_texts(value: Any) -> bool:
    return value.__class__ is list and all(one.__class__ is str for one in value) and len(set(value)) == len(value)


def _is_text(value: Any) -> bool:
    return value.__class__ is str


def is_number(value: Any) -> bool:
    return value.__class__ is int or (value.__class__ is float and isfinite(value))


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _is_count(value: Any) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _is_flag(value: Any) -> bool:
    return value.__class__ is bool


def _is_values(value: Any) -> bool:
    return value.__class__ is list and bool(value)


def _is_list(value: Any) -> bool:
    return value.__class__ is list


def _is_flags(value: Any) -> bool:
    return value.__class__ is dict and all(map(_is_flag, value.values()))


def _is_needs(value: Any) -> bool:
    return value.__class__ is dict and all(map(is_texts, value.values()))


def _is_uri(value: Any) -> bool:
    return value.__class__ is str and _URI.fullmatch(value) is not None


def _is_own_id(value: Any) -> bool:
    return _is_uri(value) and "#" not in value[:-1]


def _is_old_id(value: Any) -> bool:
    """Return True for an id before 2019-09: the URI of a resource, or a name for its place there."""
    return _is_uri(value) and "#" not in value[1:-1]


def is_anchor(value: Any) -> bool:
    return value.__class__ is str and _ANCHOR.fullmatch(value) is not None


def _is_old_anchor(value: Any) -> bool:
    return value.__class__ is str and _OLD_ANCHOR.fullmatch(value) is not None


def is_pattern(value: Any) -> bool:
    if value.__class__ is not str:
        return False
    if len(value) > _LONGEST_PATTERN or _MAY_WARN.search(value) is not None:
        return True
    for written, meant in _ECMA:
        value = written.sub(meant, value)
    try:
        re.compile(value)
    except re.error as problem:
        return _NO_PATTERN.match(problem.msg) is None
    except (RecursionError, OverflowError, ValueError):
        # Too large for Python; others may take it.
        return True
    return True


_KEYWORDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "required": is_texts,
    "enum": _is_values,
    "pattern": is_pattern,
    "$id": _is_own_id,
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$recursiveAnchor"), is_anchor),
    "$vocabulary": _is_flags,
    "dependentRequired": _is_needs,
    "examples": _is_list,
    **dict.fromkeys(("title", "description", "format", "$comment", "$schema"), _is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "$ref", "$dynamicRef", "$recursiveRef"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_number),
    "multipleOf": _is_positive,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _is_flag),
}
# Bounds that draft-04 has as flags of `minimum` and `maximum`.
FLAGS_OF: Final[Mapping[str, str]] = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
# Keywords whose values depend on others. A schema has one dialect throughout.
IN_CONTEXT: Final = frozenset({"$schema", *FLAGS_OF})
# Places where draft-04 has true or false for a schema.
FLAGGED: Final = frozenset({"additionalProperties", "additionalItems"})


class DialectRules(NamedTuple):
    """The differences of a dialect from 2020-12.

    uri: the value of `$schema`, without a `#` at the end.
    keywords: the checks of keywords whose values are no schemas.
    flags: `exclusiveMinimum` is a flag, and no schema is true or false (draft-04).
    tuples: `items` may be a list (before 2020-12).
    dynamic: the keyword of references besides `$ref`.
    alone: `$ref` has no keywords beside it (before 2019-09).
    """

    uri: str
    keywords: Mapping[str, Callable[[Any], bool]]
    flags: bool = False
    tuples: bool = True
    dynamic: str | None = None
    alone: bool = True


_KEYWORDS_2019: Final = {**_KEYWORDS, "$recursiveAnchor": _is_flag, "$anchor": _is_old_anchor}
_KEYWORDS_OLD: Final = {**_KEYWORDS, "$id": _is_old_id}
_KEYWORDS_04: Final = {
    **_KEYWORDS_OLD,
    **dict.fromkeys(FLAGS_OF, _is_flag),
    "id": _is_old_id,
    "required": lambda value: is_texts(value) and bool(value),
}
LATEST: Final = DialectRules(
    "https://json-schema.org/draft/2020-12/schema", _KEYWORDS, tuples=False, dynamic="$dynamicRef", alone=False
)
# S/basic/index, JSON Schema Usage: 2020-12 is the default, the older ones are named by their URI.
_DIALECTS: Final[Mapping[str, DialectRules]] = {
    dialect.uri: dialect
    for dialect in (
        LATEST,
        DialectRules(
            "https://json-schema.org/draft/2019-09/schema", _KEYWORDS_2019, dynamic="$recursiveRef", alone=False
        ),
        DialectRules("http://json-schema.org/draft-07/schema", _KEYWORDS_OLD),
        DialectRules("http://json-schema.org/draft-06/schema", _KEYWORDS_OLD),
        DialectRules("http://json-schema.org/draft-04/schema", _KEYWORDS_04, flags=True),
    )
}


def dialect_of(uri: object) -> DialectRules | None:
    """Return the dialect that `$schema` names, with `https` for `http` or the other way round too; 2020-12 without
    one, and None for one that is not known.
    """
    if uri is None:
        return LATEST
    if not isinstance(uri, str):
        return None
    rest = uri.removesuffix("#").partition("://")[2]
    return _DIALECTS.get(f"https://{rest}") or _DIALECTS.get(f"http://{rest}")


def is_sound(schema: Any, dialect: DialectRules) -> bool:
    """Return True if nothing is to be mended. Looks at each place once, without building anything."""
    checks, flags = dialect.keywords, dialect.flags
    stack = [schema]
    while stack:
        node = stack.pop()
        if node.__class__ is not dict:
            if node.__class__ is bool and not flags:
                continue
            return False
        for keyword, value in node.items():
            check = checks.get(keyword)
            if check is not None:
                if not check(value) or (keyword in IN_CONTEXT and not fits_context(keyword, value, node, dialect)):
                    return False
            elif keyword in NAMED:
                if value.__class__ is not dict or (keyword == "patternProperties" and not all(map(is_pattern, value))):
                    return False
                stack.extend(value.values())
            elif keyword in SEVERAL:
                if not _is_values(value):
                    return False
                stack.extend(value)
            elif keyword in ONE:
                if keyword == "items" and value.__class__ is list:
                    if not dialect.tuples or not value:
                        return False
                    stack.extend(value)
                elif not (flags and value.__class__ is bool and keyword in FLAGGED):
                    stack.append(value)
            elif keyword == "dependencies":
                if value.__class__ is not dict:
                    return False
                for one in value.values():
                    if one.__class__ is not list:
                        stack.append(one)
                    elif not is_texts(one) or (flags and not one):
                        return False
    return True


def fits_context(keyword: str, value: Any, node: Mapping[str, Any], dialect: DialectRules) -> bool:
    """Return whether a keyword of `IN_CONTEXT` may have its value in this schema."""
    if keyword == "$schema":
        return isinstance(value, str) and value.removesuffix("#") == dialect.uri
    return not dialect.flags or is_number(node.get(FLAGS_OF[keyword]))
