"""The official JSON-Schema-Test-Suite, required parts, in all five dialects.

The files under `data/` are those of the suite as the `jsonschema` 4.26 source distribution carries it (MIT, see
`data/LICENSE`), one file a dialect. Left out: what would need another document, for none is ever fetched.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.schemas.check import compile_check
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.interpreter import SchemaInterpreter
from aggregator.schemas.structure.dialect import dialect_of
from aggregator.schemas.structure.index import read
from aggregator.schemas.structure.patterns import weight

DATA: Final = Path(__file__).with_name("data")
DIALECTS: Final = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
SUITES: Final = {name: json.loads((DATA / f"{name}.json").read_text(encoding="utf-8")) for name in DIALECTS}

# Groups whose schema we refuse, and the words of the refusal.
META = "leads out of it, to 'http"
DOCUMENT = "leads out of it"
VOCABULARY = "is not a dialect we know"
REFUSED: Final = {
    ("definitions", "validate definition against metaschema"): META,
    ("defs", "validate definition against metaschema"): META,
    ("ref", "remote ref, containing refs itself"): META,
    ("dynamicRef", "strict-tree schema, guards against misspelled properties"): DOCUMENT,
    ("dynamicRef", "tests for implementation dynamic anchor and reference link"): DOCUMENT,
    ("dynamicRef", "$ref and $dynamicAnchor are independent of order - $defs first"): DOCUMENT,
    ("dynamicRef", "$ref and $dynamicAnchor are independent of order - $ref first"): DOCUMENT,
    ("dynamicRef", "$ref to $dynamicRef finds detached $dynamicAnchor"): DOCUMENT,
    ("vocabulary", "schema that uses custom metaschema with with no validation vocabulary"): VOCABULARY,
    ("vocabulary", "ignore unrecognized optional vocabulary"): VOCABULARY,
}


def schema_of(group: dict[str, Any], dialect: str) -> dict[str, Any]:
    """Return the schema of a group with its dialect named, as the default here is 2020-12."""
    schema = group["schema"]
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    return {"$schema": DIALECTS[dialect], **schema}


def groups(dialect: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return each group of the suite with the name of its file."""
    return ((file, group) for file, own in SUITES[dialect].items() for group in own)


def refusal_of(file: str, group: dict[str, Any]) -> str | None:
    return DOCUMENT if file == "refRemote" else REFUSED.get((file, group["description"]))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_required(dialect: str) -> None:
    wrong: list[tuple[object, ...]] = []
    for file, group in groups(dialect):
        schema, refusal = schema_of(group, dialect), refusal_of(file, group)
        try:
            check = compile_check(schema)
        except UnusableSchema as refused:
            if refusal is None or re.search(refusal, str(refused)) is None:
                wrong.append((file, group["description"], refused))
            continue
        if refusal is not None:
            wrong.append((file, group["description"], "is not refused"))
            continue
        for case in group["tests"]:
            found = check.faults(case["data"])
            if (not found) != case["valid"]:
                wrong.append((file, group["description"], case["description"], found))
    assert not wrong


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_judge_says_the_same(dialect: str) -> None:
    wrong: list[tuple[object, ...]] = []
    for file, group in groups(dialect):
        if refusal_of(file, group) is not None:
            continue
        index = read(schema_of(group, dialect))
        if index.dynamic:
            # Only the engine follows these; `Check` never asks the judge about them.
            continue
        weights = {pattern: weight(pattern) or 0 for _, pattern in index.patterns}
        for case in group["tests"]:
            found = list(SchemaInterpreter(index, weights).faults(case["data"]))
            holds = SchemaInterpreter(index, weights).holds(index.root, case["data"])
            if not (not found) == holds == case["valid"]:
                wrong.append((file, group["description"], case["description"], found, holds))
    assert not wrong


def test_every_refusal_is_one_of_the_suite() -> None:
    described = {(file, group["description"]) for files in SUITES.values() for file in files for group in files[file]}
    assert set(REFUSED) <= described
    assert {dialect_of({"$schema": uri}).value for uri in DIALECTS.values()} == {4, 6, 7, 2019, 2020}
