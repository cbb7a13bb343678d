"""docs/policies.md says something about every field, its examples work, and so do the shipped files."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from aggregator.policy.files import schema
from aggregator.policy.files.cases import CasesFile, PolicyCase, read_cases, run_case
from aggregator.policy.files.checking import check
from aggregator.policy.files.documents import (
    AgentPart,
    AnnotationsPart,
    DefaultsPart,
    FlowPart,
    LimitsPart,
    PolicyFile,
    RolePart,
    TenantPart,
    WhoPart,
)
from aggregator.policy.files.folder import read_folder
from aggregator.policy.files.yamltree import parse as parse_yaml
from aggregator.policy.patterns import PatternError, parse
from aggregator.policy.rulebook import Rulebook
from scripts.docs.policies import inserted
from scripts.docs.policy_schemas import files

from .build import book, errors, verdict

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "policies.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema.SCHEMA_FILE.read_text(encoding="utf-8")))


def test_the_reference_is_fresh() -> None:
    assert inserted(TEXT) == TEXT, "run: sh scripts/generate"


def test_every_field_has_its_heading() -> None:
    wanted = {*DefaultsPart.model_fields, *RolePart.model_fields, *AgentPart.model_fields, *TenantPart.model_fields}
    wanted |= {f"limits.{name}" for name in LimitsPart.model_fields}
    wanted |= {f"annotations.{name}" for name in AnnotationsPart.model_fields}
    wanted |= {f"who.{name}" for name in WhoPart.model_fields}
    wanted |= {"labels", "flow", "decay", "conversation", *(f"flow.{name}" for name in FlowPart.model_fields)}
    wanted |= {f"cases.{name}" for name in PolicyCase.model_fields}
    headings = re.findall(r"^### `(.+)`$", TEXT, re.MULTILINE)
    assert set(headings) == wanted
    assert len(headings) == len(wanted)
    for section in PolicyFile.model_fields:
        assert f"{section}:" in BLOCKS[0]


def test_the_example_and_its_cases_work() -> None:
    made = book(BLOCKS[0])
    (written, *_) = (block for block in BLOCKS if block.startswith("cases:"))
    cases = CasesFile.model_validate(parse_yaml(written).value).cases
    for case in cases:
        assert case.expect == "invalid" or run_case(case, "", made, {}).passed, case
    assert verdict(made, "shop", "mall_a.mall4j.product.search") == "allow"
    assert verdict(made, "shop", "mall_b.mall4j.product.search") == "deny"


def test_the_example_of_flow_rules_works() -> None:
    (flow,) = (block for block in BLOCKS if block.startswith("labels:"))
    made = book(flow)
    assert [rule.then for rule in made.flow.rules] == ["deny", "confirm"]
    assert VALIDATOR.is_valid(parse_yaml(flow).value)


def test_the_patterns_of_the_guide_are_patterns() -> None:
    table = TEXT.split("## Patterns")[1].split("## How")[0]
    for cell in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE):
        for pattern in re.findall(r"`(.+?)`", cell):
            parse(pattern)
    with pytest.raises(PatternError):
        parse("nothing")


def test_the_examples_of_fields_work() -> None:
    servers = "tenants: {acme: {}}\nroles: {reader: {}}\nagents:\n  a:\n"
    fields = TEXT.split("<!-- fields: begin -->")[1].split("### `servers`")[0]
    found = re.findall(r"^### `(.+?)`$(.*?)(?=^###|\Z)", fields, re.MULTILINE | re.DOTALL)
    shown = 0
    for name, about in found:
        for example in re.findall(r"^Example: `(.*)`$", about, re.MULTILINE):
            line = f"{{limits: {{t.x: {{{example}}}}}}}" if name.startswith("limits.") else f"{{{example}}}"
            content = f"{servers[:-1]} {line}\n"
            book(content)
            assert VALIDATOR.is_valid(parse_yaml(content).value), content
            shown += 1
    assert shown > 12


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_the_shipped_schemas_are_fresh(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], "run: sh scripts/generate"
    made = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(made)
    for part in (made, *made.get("$defs", {}).values()):
        for name, field in part.get("properties", {}).items():
            assert field.get("description"), name


@pytest.mark.parametrize(
    ("content", "fits"),
    [
        (BLOCKS[0], True),
        ("agents: {a: }", True),
        ("agents:", True),
        ("agents: {a: {allow: }}", True),
        ("agents: {a: {alow: []}}", False),
        ("agents: {a: {allow: t.x}}", False),
        ("agents: {'a b': {}}", False),
        ("agents: {a: {pinned: [t.x], expose: search}}", True),
        ("agents: {a: {expose: everything}}", False),
        ("agents: {a: {limits: {t.x: {per_minute: 0}}}}", False),
        ("agents: {a: {limits: {t.x: {result_bytes: 1 lot}}}}", False),
        ("roles: {r: {tenant: t}}", False),
        (
            "labels: {untrusted: [web.*], mine: }\nflow: [{after: untrusted, calls: [mine], then: deny}]\ndecay: 5m",
            True,
        ),
        ("labels: {Mine: [web.*]}", False),
        ("flow: [{after: untrusted, calls: [], then: deny}]", False),
        ("flow: [{after: untrusted, calls: outward, then: allow}]", False),
        ("defaults: {roles: [r]}", False),
        ("agents: {a: {keys: [secret]}}", False),
    ],
)
def test_editors_underline_what_is_wrong(content: str, fits: bool) -> None:
    tree: Any = parse_yaml(content).value
    assert VALIDATOR.is_valid(tree) is fits
    if not fits:
        assert errors(content)


def test_the_shipped_folder_is_open_and_its_example_is_true() -> None:
    folder = ROOT / "policies"
    assert read_folder(folder) == ([], [])
    made = check(*read_folder(folder / "example"))
    assert made.problems == ()
    assert made.documents is not None
    rulebook = Rulebook(made.documents)
    found, problems = read_cases(folder / "cases")
    assert problems == []
    assert len(found) >= 9
    for case, place in found:
        outcome = run_case(case, place, rulebook, {})
        assert outcome.passed or case.expect == "invalid", str(outcome)
