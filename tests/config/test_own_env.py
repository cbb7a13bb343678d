"""Entries whose `env` defines what their other fields refer to."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.config.load import Loaded, load_mapping
from aggregator.config.servers.complete import complete_entry
from aggregator.config.servers.expand import Expander

REMOTE = ["mcp-remote", "https://mcp.example.com", "--header", "Authorization:${AUTH_HEADER}"]


def loaded(entry: dict[str, Any], **environ: str) -> Loaded:
    return load_mapping({"mcpServers": {"box": {"command": "npx", **entry}}}, environ)


def args(entry: dict[str, Any], **environ: str) -> tuple[str, ...]:
    read = loaded({"args": ["${V}"], **entry}, **environ)
    (server,) = read.config.servers
    assert server.enabled, read.problems
    return server.args


def test_a_header_as_mcp_remote_documents_it() -> None:
    """B3: pasted as it is, the server runs, and its header is a secret."""
    read = loaded({"args": REMOTE, "env": {"AUTH_HEADER": "Bearer abc"}})
    (server,) = read.config.servers
    assert server.enabled
    assert not read.problems
    assert server.args[-1] == "Authorization:Bearer abc"
    assert "Bearer abc" in read.secrets


def test_the_variables_of_the_entry_go_before_those_of_the_environment() -> None:
    assert args({"env": {"V": "own"}}, V="other") == ("own",)
    assert args({"env": {"V": "own"}, "args": ["${env:V}", "${V:-default}", "${$}{V}"]}) == ("own", "own", "${V}")
    assert args({"env": {"V": ""}, "args": ["${V:-default}", "${V}"]}, V="other") == ("default", "")
    assert args({"env": {}}, V="other") == ("other",)


def test_any_name_and_any_plain_value_of_the_entry_counts() -> None:
    """B3: numbers and booleans become texts in `env`, and mcp-remote takes every name between braces."""
    assert args({"env": {"V": 8080}}) == ("8080",)
    assert args({"env": {"V": True}, "args": ["${V}", "${V:-default}"]}, V="other") == ("true", "true")
    assert args({"env": {"V": "${W}/x", "W": 1.5}}) == ("1.5/x",)
    assert args({"env": {"AUTH-HEADER": "own"}, "args": ["${AUTH-HEADER}", "${env:AUTH-HEADER}"]}) == ("own", "own")


def test_a_variable_that_is_passed_on_is_that_of_the_environment() -> None:
    assert args({"env": {"V": "${V}"}}, V="other") == ("other",)
    assert args({"env": {"V": "${W}"}}, V="other", W="third") == ("third",)


def test_one_variable_of_an_entry_may_be_made_of_another() -> None:
    assert args({"env": {"V": "Bearer ${W}", "W": "abc"}}) == ("Bearer abc",)


def test_variables_of_an_entry_may_be_made_of_each_other_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "box.env").write_text("F=file\nG=file\n")
    chain = {"V": "1${A}", "A": "2${B}", "B": "3${C}", "C": "4"}
    assert args({"env": chain}) == ("1234",)
    assert args({"env": dict(reversed(chain.items()))}) == ("1234",)
    entry = {"env": {"V": "${W}${G}", "W": "of the ${F} ", "G": "own"}, "envFile": str(tmp_path / "box.env")}
    assert args(entry) == ("of the file own",)
    assert args({**entry, "env": {"V": "${F}"}}, F="environment") == ("environment",)
    read = loaded({"env": {"V": "${W}", "W": "${V}", "X": "${F}"}, "envFile": str(tmp_path / "box.env")})
    assert sorted(problem.where for problem in read.problems) == ["mcpServers.box.env.V", "mcpServers.box.env.W"]
    missing = loaded({"env": {"V": "${F}"}, "envFile": str(tmp_path / "none.env")})
    assert {problem.where for problem in missing.problems} == {"mcpServers.box.env.V", "mcpServers.box.envFile"}


def test_a_variable_that_cannot_be_resolved_is_told_once_where_it_stands() -> None:
    read = loaded({"args": ["${V}"], "env": {"V": "${MISSING}"}})
    (problem,) = read.problems
    assert "MISSING" in problem.message
    assert "env" in str(problem.where)
    assert "itself" not in loaded({"args": ["${V}"], "env": {"V": "${V}"}}).problems[0].message


def test_a_secret_in_env_is_completed_later_wherever_it_is_used() -> None:
    read = loaded({"args": ["--header", "X:${V}"], "env": {"V": "Bearer ${keyring:box.token}"}})
    (server,) = read.config.servers
    assert server.enabled
    assert {text.where[0] for text in server.references} == {"args", "env"}
    (used,) = (text for text in server.references if text.where[0] == "args")
    assert [getattr(part, "name", part) for part in used.parts] == ["X:", "Bearer ", "box.token"]


def test_the_file_of_variables_and_those_of_a_launched_program_count_too(tmp_path: Path) -> None:
    (tmp_path / "box.env").write_text("V=of the file\nW=of the file\n")
    entry = {"envFile": str(tmp_path / "box.env"), "env": {"W": "own"}, "args": ["${V}", "${W}"]}
    assert args(entry, V="other", W="other") == ("of the file", "own")
    launch = {"command": "x", "args": ["--key", "${V}"], "env": {"V": "own"}}
    read = load_mapping({"mcpServers": {"box": {"url": "http://127.0.0.1:{port}/", "launch": launch}}}, {"V": "other"})
    (server,) = read.config.servers
    assert server.launch is not None
    assert server.launch.args == ("--key", "own")


def test_one_entry_does_not_see_the_variables_of_another() -> None:
    servers = {"a": {"command": "x", "env": {"V": "own"}}, "b": {"command": "x", "args": ["${V}"]}}
    read = load_mapping({"mcpServers": servers}, {})
    assert [server.enabled for server in read.config.servers] == [True, False]
    assert "own" not in json.dumps([problem.message for problem in read.problems])


def test_what_an_entry_takes_from_the_environment_is_known_by_entry(tmp_path: Path) -> None:
    """A variable of the entry's own is taken from nowhere, but for what its `env` itself refers to."""
    (tmp_path / "box.env").write_text("F=of the file\n")
    servers = {
        "own": {"command": "x", "args": ["${V}", "${F}"], "env": {"V": "own"}, "envFile": str(tmp_path / "box.env")},
        "passed": {"command": "x", "args": ["${V}"], "env": {"V": "${V}", "W": "${env:U:-none}"}},
        "plain": {"command": "x", "args": ["${V}", "${V:-none}", "${UNSET}"], "disabled": True},
        "launched": {"url": "http://x", "launch": {"command": "x", "args": ["${V}", "${W}"], "env": {"V": "own"}}},
        "asked": {"command": "x", "args": ["${input:some-key}"]},
    }
    read = load_mapping({"mcpServers": servers, "storage": "sqlite:///${HOMES}/a.db"}, {"V": "other", "W": "here"})
    assert read.variables == {
        "": {"HOMES": True},
        "own": {},
        "passed": {"V": True, "U": False},
        "plain": {"V": True, "UNSET": True},
        "launched": {"W": True},
        "asked": {"SOME_KEY": True},
    }


CIRCLES: Final[dict[str, tuple[dict[str, str], dict[str, str]]]] = {
    "two": ({"A": "${B}", "B": "x${A}"}, {"A": "A and B", "B": "B and A"}),
    "three": ({"A": "${B}", "B": "${C}", "C": "${A}"}, {"A": "A, B and C", "B": "B, C and A", "C": "C, A and B"}),
    "one that needs a circle": ({"N": "${A}", "A": "${B}", "B": "${A}"}, {"N": "A and B", "A": "A and B"}),
}


@pytest.mark.parametrize("kind", CIRCLES)
def test_variables_that_refer_to_each_other_are_named(kind: str) -> None:
    """C6: they are not called variables that are not set."""
    env, told = CIRCLES[kind]
    _, _, gaps = complete_entry({"command": "x", "env": env}, Expander({}, Path("/")))
    said = {gap.where[1]: gap.error.message for gap in gaps}
    assert said.keys() == env.keys()
    for name, names in told.items():
        assert said[name] == f"The variables {names} refer to each other."


@pytest.mark.parametrize("env", [{"A": "${A}"}, {"A": "${B}", "B": "${B}"}, {"A": "${B}"}, {"A": "${B}", "B": "${C}"}])
def test_a_variable_of_the_environment_that_is_not_set_is_no_circle(env: dict[str, str]) -> None:
    _, _, gaps = complete_entry({"command": "x", "env": env}, Expander({}, Path("/")))
    assert gaps
    assert all("is not set" in gap.error.message for gap in gaps)


def test_a_circle_that_the_environment_breaks() -> None:
    entry, _, gaps = complete_entry(
        {"command": "x", "env": {"A": "${B}", "B": "${A}"}}, Expander({"A": "of the shell"}, Path("/"))
    )
    assert not gaps
    assert entry["env"] == {"A": "of the shell", "B": "of the shell"}
