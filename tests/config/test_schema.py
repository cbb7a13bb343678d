"""The shipped schema is that of the models, and editors accept with it what the aggregator accepts."""

import json
from typing import Any

import jsonschema
import pytest

from scripts.docs.configuration_schema import SCHEMA_FILE, files

from . import host_configs

SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_shipped_file_is_fresh() -> None:
    assert files() == {SCHEMA_FILE: SCHEMA_FILE.read_text(encoding="utf-8")}, "run: sh scripts/generate"


def test_it_is_a_schema_and_describes_everything() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for definition in (SCHEMA, *SCHEMA["$defs"].values()):
        for name, field in definition["properties"].items():
            assert field.get("description"), name


@pytest.mark.parametrize("content", host_configs.EVERYONE.values(), ids=host_configs.EVERYONE)
def test_pasted_files_are_accepted(content: dict[str, Any]) -> None:
    assert not [error.message for error in VALIDATOR.iter_errors(content)]


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ({"command": "x", "timeout": "1m30s", "limits": {"max_message_bytes": "8MiB"}, "enabled": "${ON:-true}"}, True),
        ({"command": "x", "_remark": 1, "//": "a", "env": {"A": 1, "B": None}}, True),
        ({"command": "x", "timeout": "${T}", "type": "streamable_http"}, True),
        ({"command": "x", "timout": 3}, False),
        ({"command": "x", "timeout": "soon"}, False),
        ({"command": "x", "timeout": ""}, False),
        ({"command": "x", "timeout": True}, False),
        ({"command": "x", "id": "a", "disabled_reason": "b"}, False),
        ({"command": "x", "tools": {"includes": []}}, False),
        ({"command": "x", "protocol": "old"}, False),
    ],
)
def test_what_editors_underline(entry: dict[str, Any], fits: bool) -> None:
    assert VALIDATOR.is_valid({"mcpServers": {"a": entry}}) is fits
