"""docs/v1.md names everything there is, and its examples are what the OpenAPI document says."""

import json
import re
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from aggregator.config.settings import V1Config
from aggregator.domain.bounds.slices import at_once
from aggregator.frontends.v1.openapi import document
from aggregator.frontends.v1.parse_calls import read_steps
from aggregator.frontends.v1.parse_query import PARAMETERS, read_intent, read_tools_query
from aggregator.frontends.v1.render_results import STATUSES
from aggregator.frontends.v1.routes import ROUTES

TEXT: Final = (Path(__file__).parents[2] / "docs" / "v1.md").read_text(encoding="utf-8")
DOCUMENT: Final = document(V1Config())
ANSWERS: Final = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)]
ASKED: Final = re.findall(r"'http://127\.0\.0\.1:8642/v1/tools\?(.*?)'", TEXT)
POSTED: Final = re.findall(r"/v1/(intent|tool_calls) .*?-d '(.*?)'\n", TEXT, re.DOTALL)


def test_everything_is_said() -> None:
    """B3: paths, parameters, codes, and every status of a call."""
    for path, (method, _) in ROUTES.items():
        assert f"`{method} {path}`" in TEXT
    parameters = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert set(PARAMETERS) <= set(parameters)
    for code, status in STATUSES.items():
        assert re.search(rf"^\| {status} \|.*`{code}`", TEXT, re.MULTILINE), code
    for name, setting in V1Config.model_fields.items():
        if name != "enabled":
            assert re.search(rf"`v1\.{name}`\s+calls, {setting.default} by default", TEXT), name


def test_a_parameter_is_described_once() -> None:
    """B3: beside its schema, as OpenAPI has it."""
    parameters = DOCUMENT["paths"]["/v1/tools"]["get"]["parameters"]
    assert {one["name"] for one in parameters} == set(PARAMETERS)
    for one in parameters:
        assert one["description"]
        assert one["schema"]
        assert not one["schema"].keys() & one.keys()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: "-".join(answer)[:40])
def test_answers_are_answers(answer: Any) -> None:
    """B3: each fits one of the schemas."""
    whole = [name for name, schema in DOCUMENT["components"]["schemas"].items() if "required" in schema]
    fitting = [
        name
        for name in whole
        if jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{name}", **DOCUMENT}).is_valid(answer)
    ]
    assert fitting, answer


def test_questions_are_questions() -> None:
    """B3: each can be asked."""
    assert len(ASKED) == 3
    assert all(read_tools_query(query) for query in ASKED)
    assert [name for name, _ in POSTED] == ["intent", "tool_calls", "tool_calls"]
    for name, body in POSTED:
        read = json.loads(body)
        assert read_intent(read) if name == "intent" else at_once(read_steps(read, 16))
