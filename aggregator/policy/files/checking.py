"""Check policy files: each alone, its YAML, models, patterns and schemas; then merge them into documents.

Law: all or nothing. One error anywhere, and there are no documents.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from aggregator.config.files.report import dotted, nearest
from aggregator.domain.problems import Problem
from aggregator.policy.files.documents import PolicyFile
from aggregator.policy.files.folder import CheckedPolicies, CheckSchema, PolicySource, revision
from aggregator.policy.files.merge import CheckedFile, merge
from aggregator.policy.files.wording import PolicyComplaint, complaints, describe_value
from aggregator.policy.files.yamltree import Path, YamlError, YamlTree, parse
from aggregator.policy.rules import Documents

_M = TypeVar("_M", bound=BaseModel)

# Of a text that is tried out while calls run: bytes, values with those that aliases repeat, and wildcards.
LARGEST_TRIED: Final = 256 * 1024
MOST_VALUES_TRIED: Final = 20_000
MOST_WILDCARDS_TRIED: Final = 10_000
_DEEPEST: Final = 30
_TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
_ONE: Final = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"additionalItems", "unevaluatedItems", "unevaluatedProperties"}
)
_MANY: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_COUNTS: Final = frozenset(
    {"maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties", "maxContains", "minContains"}
)
_NUMBERS: Final = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"})
_DATA: Final = frozenset({"const", "default", "deprecated", "description", "enum", "examples", "format", "title"})
_OTHER: Final = frozenset(
    {"$comment", "$ref", "$schema", "dependentRequired", "pattern", "readOnly", "required", "type", "uniqueItems"}
    | {"writeOnly", "contentEncoding", "contentMediaType"}
)
KEYWORDS: Final = _ONE | _MANY | _NAMED | _COUNTS | _NUMBERS | _DATA | _OTHER


def check(
    sources: Iterable[PolicySource], problems: Iterable[Problem] = (), check_schema: CheckSchema | None = None
) -> CheckedPolicies:
    """Return the documents that the files make together; the order of the files changes nothing."""
    found = list(problems)
    ordered = sorted(sources, key=lambda source: source.file)
    if not ordered:
        return CheckedPolicies(None, tuple(found), bool(found))
    documents = documents_of(ordered, found, check_schema)
    found.sort(key=_by_place)
    broken = any(problem.severity == "error" for problem in found)
    return CheckedPolicies(None if broken else documents, tuple(found), True)


def too_much_to_try(source: PolicySource) -> Problem | None:
    """Return why a text takes too long to be tried out beside calls; None if it does not, or is no YAML."""
    found = None
    if len(source.text.encode()) > LARGEST_TRIED:
        found = f"{LARGEST_TRIED // 1024} KiB"
    elif sum(source.text.count(char) for char in "*?") > MOST_WILDCARDS_TRIED:
        found = f"{MOST_WILDCARDS_TRIED:,} wildcards"
    else:
        with suppress(YamlError):
            found = f"{MOST_VALUES_TRIED:,} values" if len(parse(source.text).lines) > MOST_VALUES_TRIED else None
    if found is None:
        return None
    fix = "Write it into a file elsewhere, and run `aggregator policy diff FILE`."
    return Problem(source.file, "", f"More than {found} are not tried out here.", fix, "error")


def documents_of(sources: list[PolicySource], problems: list[Problem], check_schema: CheckSchema | None) -> Documents:
    """Merge the files. Problems go to `problems`; with an error among them the documents are not whole."""
    parts = [part for source in sources if (part := _part(source, problems, check_schema)) is not None]
    return merge(parts, revision(sources), problems, tuple(source.file for source in sources))


def read_model(model: type[_M], source: PolicySource, problems: list[Problem]) -> tuple[_M, YamlTree] | None:
    """Read one file as its model, with the lines.

    None and problems if it does not fit, None alone if it is empty.
    """
    try:
        tree = parse(source.text)
    except YamlError as error:
        problems.append(Problem(f"{source.file}:{error.line}", "", error.message, error.fix, "error"))
        return None
    if tree.value is None:
        return None
    faults = [] if isinstance(tree.value, Mapping) else [_no_object(tree.value, model)]
    if not faults:
        try:
            return model.model_validate(tree.value), tree
        except ValidationError as error:
            faults = complaints(error, tree.value, model)
    problems += [problem_at(source.file, tree, fault) for fault in faults]
    return None


def problem_at(file: str, tree: YamlTree, fault: PolicyComplaint) -> Problem:
    """Return a complaint as a problem with its file and line."""
    return Problem(f"{file}:{tree.line(fault.path)}", dotted(fault.path), fault.message, fault.fix, "error")


def _part(source: PolicySource, problems: list[Problem], check_schema: CheckSchema | None) -> CheckedFile | None:
    before = len(problems)
    read = read_model(PolicyFile, source, problems)
    if read is None:
        if len(problems) == before:
            fix = "Write `agents:` with at least one, or remove the file: as long as it is there, nothing is open."
            problems.append(Problem(f"{source.file}:1", "", "The file holds nothing.", fix, "warning"))
        return None
    file, tree = read
    for path, schema in _schemas(tree.value):
        faults = list(find_mistakes(schema, path))
        if not faults and check_schema is not None and (fault := check_schema(schema)):
            faults = [PolicyComplaint(path, fault, "Correct the schema.")]
        problems += [problem_at(source.file, tree, fault) for fault in faults]
    return CheckedFile(source.file, file, tree)


def _no_object(value: object, model: type[BaseModel]) -> PolicyComplaint:
    keys = ", ".join(f"`{name}:`" for name in model.model_fields)
    return PolicyComplaint(
        (), f"Expected an object with keys, got {describe_value(value)}.", f"Begin with one of {keys}."
    )


def _schemas(value: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    bodies: list[tuple[Path, Any]] = [(("defaults",), value.get("defaults"))]
    for group in ("agents", "roles"):
        named: Iterable[tuple[str, Any]] = (value.get(group) or {}).items()
        bodies += [((group, name), body) for name, body in named]
    for path, body in bodies:
        for pattern, schema in ((body or {}).get("arguments") or {}).items():
            yield (*path, "arguments", pattern), schema


def _by_place(problem: Problem) -> tuple[str, int, str]:
    file, _, line = problem.file.rpartition(":")
    return (file, int(line), problem.where) if line.isdigit() else (problem.file, 0, problem.where)


def find_mistakes(schema: Any, path: Path, depth: int = 0) -> Iterator[PolicyComplaint]:
    """Yield the mistakes in a schema that stands at `path`."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield PolicyComplaint(
            path, f"Expected a JSON Schema, got {describe_value(schema)}.", "Write an object, or true or false."
        )
        return
    if depth > _DEEPEST:
        yield PolicyComplaint(path, f"The schema is nested more than {_DEEPEST} levels deep.", "Make it flatter.")
        return
    for keyword, value in schema.items():
        here = (*path, keyword)
        yield from _keyword(keyword, value, here, schema)
        if keyword in _ONE:
            yield from find_mistakes(value, here, depth + 1)
        elif keyword in _MANY and isinstance(value, list):
            for at, part in enumerate(value):
                yield from find_mistakes(part, (*here, at), depth + 1)
        elif keyword in _NAMED and isinstance(value, Mapping):
            for name, part in value.items():
                yield from find_mistakes(part, (*here, name), depth + 1)


def _keyword(keyword: str, value: Any, here: Path, schema: Mapping[str, Any]) -> Iterator[PolicyComplaint]:
    if keyword not in KEYWORDS:
        meant = nearest(keyword, KEYWORDS)
        fix = f"Did you mean `{meant}`?" if meant else "Names of arguments go under `properties`."
        yield PolicyComplaint(here, f"JSON Schema has no keyword `{keyword}`: it would have no effect.", fix)
    elif (keyword in _MANY or keyword == "enum") and not (isinstance(value, list) and value):
        yield PolicyComplaint(
            here, f"Expected a list with something in it, got {describe_value(value)}.", "Correct the value."
        )
    elif keyword in _NAMED and not isinstance(value, Mapping):
        yield PolicyComplaint(
            here, f"Expected an object with keys, got {describe_value(value)}.", "Write a schema per name."
        )
    elif keyword in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        yield PolicyComplaint(
            here, f"Expected a whole number from 0 up, got {describe_value(value)}.", "Correct the value."
        )
    elif keyword in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
        yield PolicyComplaint(here, f"Expected a number, got {describe_value(value)}.", "Correct the value.")
    elif keyword == "type":
        yield from _type(value, here)
    elif keyword == "required":
        yield from _required(value, here)
    elif keyword == "pattern":
        yield from _pattern(value, here)
    elif keyword == "patternProperties":
        for name in value:
            yield from _pattern(name, (*here, name))
    elif keyword == "$ref" and not (isinstance(value, str) and value.startswith("#")):
        yield PolicyComplaint(
            here, "A schema here refers only into itself.", "Write #/$defs/NAME, or copy what is meant."
        )


def _type(value: Any, here: Path) -> Iterator[PolicyComplaint]:
    for one in value if isinstance(value, list) else [value]:
        if one not in _TYPES:
            meant = nearest(one, _TYPES) if isinstance(one, str) else None
            fix = f"Did you mean `{meant}`?" if meant else f"The types are {', '.join(_TYPES)}."
            yield PolicyComplaint(here, f"There is no type {describe_value(one)}.", fix)


def _required(value: Any, here: Path) -> Iterator[PolicyComplaint]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        yield PolicyComplaint(
            here, f"Expected a list of names, got {describe_value(value)}.", "Write the names of arguments."
        )


def _pattern(value: Any, here: Path) -> Iterator[PolicyComplaint]:
    if not isinstance(value, str):
        yield PolicyComplaint(here, f"Expected a regular expression, got {describe_value(value)}.", "Put it in quotes.")
        return
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError):
        yield PolicyComplaint(here, "This is not a regular expression.", "Correct it; put it in single quotes.")
