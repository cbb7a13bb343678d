"""Schemas and values made to crash or to stall a checker. Run as a program of its own: `python attacks.py NAME ...`.

Prints one JSON line for each: what came of it.
"""

import json
import sys
from collections.abc import Callable
from functools import reduce
from random import Random
from typing import Any

from aggregator.schemas.check import compile_check
from aggregator.schemas.coerce import coerce
from aggregator.schemas.declared_names import DeclaredNames
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.signature import signature
from aggregator.schemas.workers.small_enough import is_small_enough

TEXT = "".join(Random(1).choices("ab", k=100_000))  # noqa: S311
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"


def ref(name: object) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def chain(length: int, link: Callable[[int], Any], end: Any) -> dict[str, Any]:
    """`$defs` 0, 1, 2 ... made by `link` of the next one, then `end`; starts at 0."""
    return {**ref(0), "$defs": {**{str(n): link(n + 1) for n in range(length)}, str(length): end}}


def nested(times: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    return reduce(lambda part, _: wrap(part), range(times), inner)


def listed(times: int, inner: Any) -> Any:
    return nested(times, lambda part: [part], inner)


def doubled(keyword: str, length: int, end: Any) -> dict[str, Any]:
    return chain(length, lambda n: {keyword: [ref(n), ref(n)]}, end)


def fully_connected(count: int) -> dict[str, Any]:
    """Each of `count` definitions can hold a list of any of them."""
    options = [{"type": "array", "items": ref(n)} for n in range(count)]
    return {**ref(0), "$defs": {str(n): {"anyOf": [*options, {"type": "string"}]} for n in range(count)}}


LOOK_BACK: Any = {"unevaluatedItems": {"type": "string"}}

ATTACKS: dict[str, Callable[[], tuple[Any, Any]]] = {
    # Depth.
    "deep value": lambda: ({}, listed(10_000, 1)),
    "deep value, deep schema": lambda: ({**ref("a"), "$defs": {"a": {"items": ref("a")}}}, listed(100_000, 1)),
    "deep value within the limit": lambda: ({**ref("a"), "$defs": {"a": {"items": ref("a")}}}, listed(60, 1)),
    "deep schema": lambda: (nested(10_000, lambda part: {"items": part}, {}), 1),
    "deep in place": lambda: (nested(45, lambda part: {"anyOf": [part]}, {"type": "string"}), 1),
    "long chain": lambda: (chain(2_900, ref, {"type": "string"}), 1),
    "long chain down": lambda: (chain(1_400, lambda n: {"properties": {"c": ref(n)}}, {}), {"c": {"c": {"c": 1}}}),
    "longer chain": lambda: (chain(100_000, ref, {}), 1),
    # Circles.
    "loop": lambda: ({"$ref": "#"}, 1),
    "loop of two": lambda: (chain(1, ref, ref(0)), 1),
    "loop in anyOf": lambda: ({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, 1),
    "loop in not": lambda: ({"not": {"$ref": "#"}}, 1),
    "dynamic loop": lambda: ({"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]}, 1),
    "recursive loop": lambda: ({"$schema": DRAFT_2019, "$recursiveAnchor": True, "anyOf": [{"$recursiveRef": "#"}]}, 1),
    "dynamic recursion": lambda: (
        {"$dynamicAnchor": "n", "anyOf": [{"items": {"$dynamicRef": "#n"}, "minItems": n} for n in range(6)]},
        listed(40, 1),
    ),
    "dynamic choice": lambda: (
        {
            "$dynamicAnchor": "n",
            "anyOf": [{"items": {"$dynamicRef": "#n"}}, {"items": {"$dynamicRef": "#n"}, "minItems": 1}],
            "$defs": {"other": {"$id": "other", "$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}}},
        },
        listed(40, 1),
    ),
    # Exponential ways.
    "doubled anyOf": lambda: (doubled("anyOf", 40, {"type": "string"}), 1),
    "doubled allOf": lambda: (doubled("allOf", 40, {"type": "string"}), "x"),
    "doubled oneOf": lambda: (doubled("oneOf", 40, {"type": "string"}), 1),
    "doubled in a circle": lambda: (doubled("anyOf", 16, {"items": ref(0), "type": "array"}), [[[1], [1]]] * 3),
    "doubled in a wider circle": lambda: (doubled("anyOf", 40, {"items": ref(0), "type": "array"}), [[[1], [1]]] * 3),
    "doubled per level": lambda: (
        chain(40, lambda n: {"anyOf": [{"properties": {"c": ref(n)}}] * 2}, {"type": "string"}),
        nested(40, lambda part: {"c": part}, 1),
    ),
    "every way": lambda: (fully_connected(12), listed(30, 1)),
    "every way, shallow": lambda: (fully_connected(12), listed(3, 1)),
    "looking back": lambda: (nested(40, lambda part: {"allOf": [part, {}], **LOOK_BACK}, LOOK_BACK), ["a", "b"]),
    # Sizes.
    "unique million": lambda: ({"uniqueItems": True}, list(range(1_000_000))),
    "unique objects": lambda: ({"uniqueItems": True}, [{"a": n} for n in range(100_000)]),
    "last is a copy": lambda: ({"uniqueItems": True}, [*range(200_000), 5]),
    "all wrong": lambda: ({"items": {"type": "string"}}, list(range(240_000))),
    "all missing": lambda: ({"required": [str(n) for n in range(20_000)]}, {f"p{n}": n for n in range(50_000)}),
    "giant enum": lambda: ({"enum": [f"v{n}" for n in range(90_000)]}, "w"),
    "giant enum each": lambda: ({"items": {"enum": [{"a": n} for n in range(40_000)]}}, [{"a": -1}] * 20_000),
    "giant schema": lambda: ({"enum": list(range(200_000))}, 1),
    "many subschemas": lambda: ({"properties": {f"p{n}": {} for n in range(10_000)}}, {}),
    "many alternatives": lambda: (
        {"items": {"oneOf": [{"properties": {"k": {"const": f"c{n}"}}, "required": ["z"]} for n in range(500)]}},
        [{"k": "c3"}] * 3_000,
    ),
    "nested contains": lambda: ({"contains": {"contains": {"const": 1}}}, [[0] * 400] * 500),
    "great numbers": lambda: ({"multipleOf": 7, "maximum": 10}, 10**5_000),
    "small divisor": lambda: ({"items": {"multipleOf": 1e-300}}, [1e299] * 1_000),
    # Corrections.
    "text without an end": lambda: ({"type": "array"}, "['" + "\\'" * 9_000 + "]"),
    "names in other spellings": lambda: (
        {"properties": {f"p{n}": {} for n in range(2_000)}, "required": [f"p{n}" for n in range(2_000)]},
        {f"P-{n}": "1" for n in range(2_000)},
    ),
    "options in other spellings": lambda: ({"items": {"enum": [f"v{n}" for n in range(4_000)]}}, ["V"] * 5_000),
    # Patterns.
    "nested quantifiers": lambda: ({"pattern": "^(a+)+$"}, "a" * 100_000 + "!"),
    "alternatives of one": lambda: ({"pattern": "^(a|a)*$"}, "a" * 100_000 + "!"),
    "counted": lambda: ({"pattern": "[ab]*a[ab]{1000}c"}, TEXT),
    "counted twice": lambda: ({"pattern": "(a.{200}|b.{200}){20}c"}, TEXT),
    "counted, many texts": lambda: (
        {"items": {"pattern": "([^c]{1,50}){60}c"}},
        [TEXT[n : n + 300] for n in range(300)],
    ),
    "counted beyond": lambda: ({"pattern": "((a{100}){100}){100}"}, TEXT),
    "look-ahead": lambda: ({"pattern": "(?=.*a)(?=.*b)(?=.*c).*"}, TEXT),
    "back-reference": lambda: ({"pattern": r"(a*)*\1c"}, TEXT),
    "no expression": lambda: ({"pattern": "["}, TEXT),
    "no expression for names": lambda: ({"patternProperties": {"(?!a)": {}}}, {"b": 1}),
    "heavy expressions": lambda: (
        {"properties": {f"p{n}": {"pattern": f".{{1,1000}}{n}"} for n in range(300)}},
        {"p1": "x"},
    ),
    "an expression for a long name": lambda: ({"propertyNames": {"pattern": "[ab]*a[ab]{1000}c"}}, {TEXT: 1}),
    "expressions for names": lambda: (
        {"patternProperties": {f"a?{{{n}}}b": {"type": "string"} for n in range(1, 300)}},
        {"k" * 50 + str(n): "x" for n in range(2_000)},
    ),
}


def attempt(name: str) -> list[str]:
    """`["unusable", why]`, or the keywords of the faults."""
    schema, value = ATTACKS[name]()
    coerce(schema, value, DeclaredNames(schema) if is_small_enough(schema) else None)
    signature(schema)
    try:
        return [fault.keyword for fault in compile_check(schema).faults(value)]
    except UnusableSchema as problem:
        return ["unusable", str(problem)]


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        print(json.dumps([asked, attempt(asked)]), flush=True)
