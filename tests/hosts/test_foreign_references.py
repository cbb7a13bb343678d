"""References in entries of other programs: none of them makes a file, a keyring or a program be read here."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.cli.hosts.import_paths import placed
from aggregator.config.servers.expand import Expander, ExpandError
from aggregator.config.servers.foreign_references import harmless, variables_alone
from aggregator.hosts.discover import discover
from aggregator.hosts.every_host import host_named
from aggregator.hosts.machine import this_machine
from tests.hosts.grounds import put

_PIECES = st.lists(
    st.sampled_from(
        ("${", "}", "$", "{", ":-", "file:", "keyring:", "command:", "env:", "A", "B", "/etc/hosts", "input:")
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)


class Watched(dict[str, str]):
    """An environment in which every variable is set."""

    def get(self, name: str, default: Any = None) -> Any:
        return f"value of {name}"


@given(_PIECES)
@example("${file:/etc/hosts}")
@example("${file:/etc/${A:-hosts}}")
@example("${keyring:${A:-github}}")
@example("${command:cat ${A:-x}}")
@example("${A:-${file:/etc/hosts}}")
@example("${file:-x}")
@example("$${file:/etc/hosts}")
@example("${A:-${B:-${$}{file:x}}}")
def test_no_text_refers_to_more_than_variables(text: str) -> None:
    """No text of another program asks for a file or a secret, and it is the same when it is read once more."""
    made = variables_alone(text, [])
    expander = Expander(Watched(), Path("/nowhere"), commands=("cat", "x"))
    try:
        parts = expander.parts(made)
    except ExpandError as error:
        pytest.fail(f"{text!r} became {made!r}: {error.message}")
    assert all(isinstance(part, str) for part in parts)
    assert expander.files == set()
    assert variables_alone(made, []) == made


@given(st.text(alphabet="ab{}:$-", max_size=12))
def test_what_is_no_reference_is_passed_on_as_it_is(text: str) -> None:
    made = variables_alone("${command:" + text, [])
    if "${" not in text:
        assert Expander({}, Path("/nowhere")).expand(made) == "${command:" + text


@pytest.mark.parametrize(
    ("host", "path", "content"),
    [
        ("claude-code", ".mcp.json", '{"mcpServers": {"a": {"url": "https://a.example", "headers": {"X": "%s"}}}}'),
        ("vscode", ".vscode/mcp.json", '{"servers": {"a": {"command": "a", "args": ["%s"], "description": "%s"}}}'),
        ("codex", ".codex/config.toml", '[mcp_servers.a]\nurl = "https://a.example"\nenv_http_headers = {X = "%s"}\n'),
        ("codex", ".codex/config.toml", '[mcp_servers.a]\ncommand = "a"\nenv_vars = ["%s"]\n'),
        ("codex", ".codex/config.toml", '[mcp_servers.a]\nurl = "https://a.example"\nbearer_token_env_var = "%s"\n'),
        ("gemini", ".gemini/settings.json", '{"mcpServers": {"a": {"httpUrl": "https://a.example/%s"}}}'),
        ("continue", ".continue/mcpServers/a.yaml", 'mcpServers:\n- {name: a, command: a, args: ["%s"]}\n'),
    ],
)
@pytest.mark.parametrize("written", ["${file:/etc/hosts}", "file:/etc/hosts", "keyring:github", "${command:cat x}"])
def test_the_files_of_a_folder_bring_in_no_such_reference(
    host: str, path: str, content: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    put(tmp_path / path, content.replace("%s", written))
    (found,) = discover(this_machine(), [host_named(host)])
    (server,) = found.servers
    assert server.problem is not None or server.fields is not None
    for text in _texts(server.fields or {}):
        expander = Expander(Watched(), tmp_path, commands=("cat",))
        assert all(isinstance(part, str) for part in expander.parts(text))
        assert expander.files == set()


def test_values_of_other_types_stay() -> None:
    fields = {"enabled": False, "timeout": 5, "tools": {"include": ["${file:x}"]}, "args": []}
    assert harmless(fields) == {**fields, "tools": {"include": ["${$}{file:x}"]}}


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _texts(item)]


@pytest.mark.parametrize("name", ["a${file:x}", "a$"])
def test_the_name_of_a_folder_is_no_reference(name: str, tmp_path: Path) -> None:
    fields = {"command": "./run", "args": ["${workspaceFolder}{file:x}", "${workspaceFolderBasename}"], "envFile": "e"}
    made = placed(fields, tmp_path / name, [])
    expander = Expander({}, Path("/nowhere"))
    assert expander.expand(made["args"][0]) == f"{tmp_path / name}{{file:x}}"
    assert expander.expand(made["args"][1]) == name
    assert expander.expand(made["cwd"]) == str(tmp_path / name)
    assert expander.expand(made["command"]) == str(tmp_path / name / "run")
