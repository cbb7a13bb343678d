"""Loading as a whole: whatever the file holds, there is a configuration or a ConfigError."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.config.load import ROOT_KEYS, ConfigError, load
from aggregator.config.model import Config
from aggregator.config.server_parts import LaunchConfig, ToolsConfig
from aggregator.config.servers.foreign import ENV_FILE, IGNORED_ROOT, MEANT
from aggregator.config.settings import HttpConfig, LogConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.problems import Problem
from tests.laws import examples

from .conftest import Load


def test_a_file_that_lists_no_servers(load_file: Load, tmp_path: Path) -> None:
    loaded = load_file({"$schema": "x"})
    assert loaded.config == Config()
    assert loaded.path == tmp_path / "aggregator.json"
    assert [str(problem) for problem in loaded.problems] == [
        f'warning: {loaded.path}: The file lists no servers. Add some under "mcpServers".'
    ]


def test_both_roots_are_read_in_order(load_file: Load) -> None:
    entry = {"command": "x"}
    loaded = load_file({"servers": {"b": entry}, "mcpServers": {"z": entry, "a": entry}})
    assert [server.id for server in loaded.config.servers] == ["z", "a", "b"]


def test_entries_are_counted_at_both_roots_good_or_bad(load_file: Load) -> None:
    """C16: a file that lists none any more is most likely damaged."""
    good = {"command": "x"}
    assert load_file({"mcpServers": {"a": good, "b": 5}, "servers": {"c": good}}).listed == 3
    assert [load_file({root: {"a": good}}).listed for root in ("mcpServers", "servers")] == [1, 1]
    assert load_file({"mcpServers": {}, "servers": 5}).listed == 0


@pytest.mark.parametrize(
    ("default", "environ", "value"),
    [
        ({}, {}, None),
        ({"default": 5}, {}, None),
        ({"default": ""}, {}, ""),
        ({"default": "d"}, {}, "d"),
        ({"default": "d"}, {"API_KEY": "e"}, "e"),
        ({}, {"API_KEY": "e"}, "e"),
    ],
)
def test_an_input_without_a_default_needs_its_variable(
    load_file: Load, default: dict[str, object], environ: dict[str, str], value: str | None
) -> None:
    entry = {"command": "x", "args": ["${input:api-key}"]}
    loaded = load_file({"inputs": [{"id": "api-key", **default}], "servers": {"a": entry}}, environ)
    if value is not None:
        assert [server.args for server in loaded.config.servers] == [(value,)]
        assert not loaded.problems
    else:
        assert "API_KEY, which is not set" in str(loaded.problems[0])
        assert not any(server.enabled for server in loaded.config.servers)


def test_a_program_that_is_launched_has_the_variables_of_the_entry_and_its_own(load_file: Load) -> None:
    """E8: its own go first."""
    launch = {"command": "x", "args": ["${A}", "${B}", "${C}"], "env": {"B": "own", "C": "see"}}
    entry = {"url": "http://127.0.0.1:9000/mcp", "env": {"A": "entry", "B": "entry"}, "launch": launch}
    (server,) = load_file({"mcpServers": {"a": entry}}, {"C": "outside"}).config.servers
    assert server.launch is not None
    assert server.launch.args == ("entry", "own", "see")


def test_servers_that_are_no_object(load_file: Load) -> None:
    loaded = load_file({"mcpServers": [], "servers": {"b": {"command": "x"}}})
    assert [server.id for server in loaded.config.servers] == ["b"]
    assert "mcpServers: Expected an object in { }, got a list." in str(loaded.problems[0])


def test_a_file_that_is_no_json(load_file: Load) -> None:
    with pytest.raises(OperatorError, match="line 1, column 2"):
        load_file("{")


def test_a_problem_is_one_line_without_escapes() -> None:
    problem = Problem("f", 'mcpServers["\x1b[31m\n\ud800地"]', "No.", "Mend it.", "error")
    assert str(problem) == 'error: f: mcpServers["\\x1b[31m\\n\\ud800地"]: No. Mend it.'


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
texts = st.sampled_from(
    [
        "${A}",
        "${B:-x}",
        "${file:x}",
        "http://a",
        "https://a:b@c/?d=e",
        "30s",
        "stdio",
        "http",
        "sse",
        "local",
        "a.b:c",
        "",
    ]
)
keys = st.sampled_from(
    [
        *sorted(MEANT),
        *ROOT_KEYS,
        *IGNORED_ROOT,
        *HttpConfig.model_fields,
        *LaunchConfig.model_fields,
        *ToolsConfig.model_fields,
        *LogConfig.model_fields,
        ENV_FILE,
    ]
)
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.text(max_size=5), inner, max_size=5),
    max_leaves=15,
)
entries = st.dictionaries(st.text(max_size=5), values | st.dictionaries(keys, values, max_size=6), max_size=3)
roots = st.dictionaries(keys | st.text(max_size=5), values, max_size=4) | st.fixed_dictionaries(
    {"mcpServers": entries}, optional={name: values for name in ROOT_KEYS if name != "mcpServers"}
)
environs = st.dictionaries(
    st.sampled_from(["A", "X_MCP_SERVER_URL", "X_MCP_TRANSPORT", "X_MCP_TIMEOUT", "URL_MCP_TIMEOUT"]),
    st.text() | texts,
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(roots, environs)
def test_any_object_is_a_configuration(tmp_path: Path, root: dict[str, object], environ: dict[str, str]) -> None:
    """Proves: E9."""
    path = tmp_path / "aggregator.json"
    path.write_text(json.dumps(root))
    loaded = load(path, environ)
    assert isinstance(loaded.config, Config)
    assert len({server.id for server in loaded.config.servers}) == len(loaded.config.servers)
    assert len({server.prefix for server in loaded.config.servers}) == len(loaded.config.servers)
    for problem in loaded.problems:
        assert str(problem).isprintable()
        assert problem.message.endswith((".", "?"))
        assert problem.fix
    for server in loaded.config.servers:
        assert not server.enabled or server.command or server.url or server.target
    repr(loaded)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=50) | st.text(alphabet='{}[]:,"/*\\ab1 \n').map(str.encode))
def test_any_bytes_are_a_configuration_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "aggregator.json"
    path.write_bytes(content)
    said = str(path)
    try:
        load(path, {})
    except ConfigError as error:
        said = str(error)
    assert str(path) in said


def test_deep_nesting_costs_its_place_alone(load_file: Load) -> None:
    deep = "[" * 400 + "]" * 400
    loaded = load_file(f'{{"mcpServers": {{"a": {{"command": "x", "args": {deep}}}, "b": {{"command": "x"}}}}}}')
    assert [server.id for server in loaded.config.servers] == ["b"]


def test_loading_brings_in_nothing_heavy() -> None:
    code = "import sys, aggregator.config.load; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    heavy = {
        "asyncio",
        "difflib",
        "mcp",
        "starlette",
        "aiohttp",
        "typer",
        "rich",
        "jsonschema",
    }
    assert not heavy & set(loaded.stdout.split())
