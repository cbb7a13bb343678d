"""The store of checks: compiled once, bounded, and nothing heavy before the first."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from aggregator.domain.records import ToolRecord
from aggregator.schemas.checks import SchemaChecks
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.output import known_faults

ROOT = Path(__file__).resolve().parents[2]
INPUT = {"type": "object", "properties": {"a": {"type": "string"}}}


def tool(schema: Any = INPUT, output: Any = None, name: str = "t") -> ToolRecord:
    definition = {"name": name, "inputSchema": schema, **({"outputSchema": output} if output is not None else {})}
    return ToolRecord("s", "s", name, definition, {}, 1.0)


def test_the_same_schema_is_compiled_once() -> None:
    checks = SchemaChecks()
    one = checks.get(tool())
    assert checks.get(tool()) is one
    assert checks.get(tool(deepcopy(INPUT))) is one, "found by its content"
    assert checks.get(tool(), [{"required": ["a"]}]) is not one


def test_what_tightens_is_part_of_the_check() -> None:
    check = SchemaChecks().get(tool(), ({"required": ["a"]},))
    faults = check.at_once({})
    assert faults is not None
    assert [fault.pointer for fault in faults] == ["/a"]


def test_an_unusable_schema_is_remembered() -> None:
    checks, broken = SchemaChecks(), tool({"$ref": "http://example.com/"})
    said = []
    for _ in range(2):
        with pytest.raises(UnusableSchema) as caught:
            checks.get(broken)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert caught.value.__traceback__ is not None


def test_no_more_is_kept_than_there_is_room_for() -> None:
    checks = SchemaChecks(capacity=2)
    tools = [tool({"type": "object", "minProperties": n}) for n in range(3)]
    first = checks.get(tools[0])
    checks.get(tools[1])
    assert checks.get(tools[0]) is first
    checks.get(tools[2])
    assert checks.get(tools[0]) is first, "what was used last stays"


def test_a_tool_without_input_schema_takes_any_object() -> None:
    nameless = ToolRecord("s", "s", "t", {"name": "t"}, {}, 1.0)
    assert SchemaChecks().get(nameless).at_once({"a": 1}) == ()
    assert SchemaChecks().output(nameless) is None


def test_threads_may_ask_at_once() -> None:
    checks = SchemaChecks()
    tools = [tool({"type": "object", "minProperties": n % 5}) for n in range(100)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda one: len(checks.get(one).at_once({}) or ()), tools))
    assert found == [int(n % 5 > 0) for n in range(100)]


async def test_preparing_tells_what_is_not_checked() -> None:
    said = await SchemaChecks().prepare(
        [
            tool(name="fine"),
            tool({"$ref": "#/x"}, name="broken"),
            tool({"properties": {"a": {"pattern": "(?=x)"}}}, {"type": "int"}, name="partly"),
        ]
    )
    assert list(said) == ["s.broken", "s.partly"]
    assert said["s.broken"] == ["its inputSchema is not checked: the reference at /$ref leads nowhere: '#/x'"]
    assert said["s.partly"][0].startswith("inputSchema: the pattern at /properties/a/pattern is not checked")
    assert said["s.partly"][1].startswith("its outputSchema is not checked: it is not a JSON Schema")


def test_output_is_held_to_its_schema_but_never_an_error() -> None:
    assert known_faults({"structuredContent": {"n": 1}}) is None, "it has to be checked"
    assert known_faults({"isError": True, "content": []}) == ()
    missing = known_faults({"content": []})
    assert missing is not None
    assert [fault.got for fault in missing] == ["nothing"]


def test_nothing_heavy_is_loaded_before_the_first_check() -> None:
    code = (
        "import sys, aggregator.schemas.checks, aggregator.schemas.refusal, aggregator.schemas.output\n"
        "print(*sorted({'jsonschema_rs', 'jsonschema', 'difflib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ""
