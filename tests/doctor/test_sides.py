"""The conditions of single checks and facts: a row for each side of each."""

import json
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from aggregator.config.load import Loaded, load, load_mapping
from aggregator.doctor import examine
from aggregator.doctor.checks.host_files import HostFacts, OwnEntry, of_host
from aggregator.doctor.checks.machine import FileMode, MachineFacts, of_machine, of_modes
from aggregator.doctor.checks.storage import of_held
from aggregator.doctor.gather.host_files import HostsFound, HostStart
from aggregator.doctor.gather.machine import read_modes, read_programs
from aggregator.doctor.gather.one_session import SessionFault, SessionTools, ToldStates
from aggregator.doctor.gather.sessions import HostSession, of_session
from aggregator.doctor.gather.trial import untried
from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.model import Machine
from aggregator.upstream.lifecycle.states import State
from tests import ON_WINDOWS

PLACE: Final = Path("/somewhere/aggregator.json")
NOW: Final = 1_800_000_000.0


@pytest.mark.parametrize("bit", [1 << place for place in range(9)], ids=oct)
def test_a_file_is_open_by_the_bits_of_its_group_and_of_all(bit: int) -> None:
    found = [one.code for one in of_modes(FileMode(PLACE, bit), True, [FileMode(PLACE, bit)])]
    assert found == [*(["config_open"] if bit & 0o044 else []), *(["policy_open"] if bit & 0o022 else [])]
    assert not list(of_modes(FileMode(PLACE, bit), False, [FileMode(PLACE, None)]))
    assert not list(of_modes(FileMode(PLACE, None), True, []))


@pytest.mark.parametrize(
    ("no_proxy", "proxies", "loopback", "told"),
    [
        ("", ["HTTP_PROXY"], ["box"], True),
        ("a.example, localhost.example", ["HTTP_PROXY"], ["box"], True),
        ("a.example, localhost", ["HTTP_PROXY"], ["box"], False),
        ("127.0.0.1,::1", ["HTTP_PROXY"], ["box"], False),
        ("a.example , *", ["HTTP_PROXY"], ["box"], False),
        ("", [], ["box"], False),
        ("", ["HTTP_PROXY"], [], False),
    ],
)
def test_a_proxy_for_this_machine_is_told_unless_something_passes_it(
    no_proxy: str, proxies: list[str], loopback: list[str], told: bool
) -> None:
    facts = MachineFacts(NOW, "3.11", "1", "1", proxies=proxies, no_proxy=no_proxy, loopback=loopback)
    assert [one.code for one in of_machine(facts)] == [*(["proxy_for_loopback"] if told else []), "versions"]


@pytest.mark.parametrize("written", [None, "local", "ada"])
@pytest.mark.parametrize("wanted", [None, "local", "ada"])
def test_an_entry_starts_as_local_unless_it_names_an_agent(written: str | None, wanted: str | None) -> None:
    for command, url in (("aggregator", None), (None, "http://127.0.0.1:1/mcp")):
        entry = OwnEntry("us", PLACE, True, command, command, agent=written, url=url)
        found = [one.code for one in of_host(HostFacts("cursor", "Cursor", PLACE, entries=(entry,)), None, wanted)]
        differs = command is not None and wanted is not None and wanted != (written or "local")
        assert found == (["host_agent_differs"] if differs else [])


def test_each_fault_of_a_start_is_told_in_its_own_words() -> None:
    said = {
        "ended": "ended before it answered",
        "hangs": "did not answer within",
        "not_started": "could not be started",
        **dict.fromkeys(("not_mcp", "refused", "no_answer"), "answered what is not MCP"),
    }
    assert said.keys() == {*get_args(SessionFault)}
    for fault in get_args(SessionFault):
        seen = SessionTools(fault=fault, seconds=3.0, words=("last",))
        (found,) = of_session(HostSession(None, "Cursor", "cursor", "local", "aggregator stdio", None, seen), None, "1")
        assert found.code == ("host_start_hangs" if fault == "hangs" else "host_start_fails")
        assert said[fault] in found.message


def test_a_server_has_settled_in_every_state_but_those_on_the_way() -> None:
    settled = set()
    for state in get_args(State):
        told = ToldStates()
        told.take(f"05:09:12.268 INFO    upstream.lifecycle.state: server box is {state}")
        settled |= {state} if told.settled(["box"]) else set()
    assert settled == {"ready", "reconnecting", "unavailable", "disabled"}


def test_only_configured_servers_hold_definitions() -> None:
    (found,) = of_held({"shop": ("order",), "gone": ("x",)}, {}, {}, {"shop"})
    assert found.where == "shop"


def loaded_of(**servers: Any) -> Loaded:
    return load_mapping({"mcpServers": servers}, {})


@pytest.mark.parametrize(
    ("other", "twice"),
    [
        ({}, True),
        ({"description": "the other"}, True),
        ({"args": ["-v"]}, False),
        ({"env": {"STAGE": "2"}}, False),
        ({"cwd": "/srv"}, False),
        ({"enabled": False}, False),
    ],
)
def test_two_entries_of_a_program_are_one_server_unless_its_start_differs(other: dict[str, Any], twice: bool) -> None:
    one = {"command": "box", "args": [], "env": {"STAGE": "1"}}
    facts = untried(loaded_of(a=one, b={**one, **other}), {}).servers
    assert [server.same_as for server in facts] == [None, "a" if twice else None]


@pytest.mark.parametrize(
    ("other", "twice"),
    [
        ({}, True),
        ({"headers": {"X-Tenant": "2"}}, False),
        ({"url": "https://box.example/other"}, False),
        ({"auth": {"per": "shared"}}, False),
    ],
)
def test_two_entries_of_an_address_are_one_server_unless_their_requests_differ(
    other: dict[str, Any], twice: bool
) -> None:
    one = {"url": "https://box.example/mcp", "headers": {"X-Tenant": "1"}}
    facts = untried(loaded_of(a=one, b={**one, **other}), {}).servers
    assert [server.same_as for server in facts] == [None, "a" if twice else None]


def test_programs_are_looked_for_by_their_plain_name_on_the_path_of_the_host(tmp_path: Path) -> None:
    loaded = loaded_of(
        plain={"command": "box"},
        full={"command": str(tmp_path / "box")},
        off={"command": "box", "enabled": False},
        own={"command": "box", "env": {"PATH": str(tmp_path)}},
        far={"url": "https://box.example/mcp"},
    )
    assert [one.server for one in read_programs(loaded, {"PATH": ""}, tmp_path)] == ["plain"]


@pytest.mark.parametrize(
    ("entry", "holds"),
    [
        ({"env": {"API_TOKEN": "sesame-9f8e7d"}}, True),
        ({"env": {"API_TOKEN": "short"}}, False),
        ({"env": {"API_TOKEN": "${BOX_TOKEN}"}}, False),
        ({"env": {"API_TOKEN": "${secret:box}"}}, False),
        ({"env": {"STAGE": "sesame-9f8e7d"}}, False),
    ],
)
@pytest.mark.skipif(ON_WINDOWS, reason="without bits of permission")
def test_a_reference_to_a_secret_is_no_secret(tmp_path: Path, entry: dict[str, Any], holds: bool) -> None:
    path = tmp_path / "aggregator.json"
    path.write_text(json.dumps({"mcpServers": {"box": {"command": "box", **entry}}}), encoding="utf-8")
    assert read_modes(load(path, {"BOX_TOKEN": "sesame-9f8e7d"}))[1] is holds


@pytest.mark.parametrize(
    ("named", "agents", "variable", "agent"),
    [
        ("ada", ("bob",), "eve", "ada"),
        (None, ("bob", "cid"), "eve", "bob"),
        (None, (), "eve", "eve"),
        (None, (), "", "local"),
    ],
)
def test_the_agent_is_the_named_one_or_that_of_a_start_or_of_the_shell(
    named: str | None, agents: tuple[str, ...], variable: str, agent: str
) -> None:
    """An address in a host's file says nothing of the agent: its key does."""
    home = Path("/nowhere")
    wanted = examine.Examination(Machine("linux", home, {}, home), {"AGGREGATOR_AGENT": variable}, agent=named)
    starts = [HostStart(HOSTS[0], PLACE, "us", "local", url="http://127.0.0.1:1/mcp")]
    starts += [HostStart(HOSTS[0], PLACE, "us", one, "aggregator") for one in agents]
    assert examine._Doctor(wanted)._agent(HostsFound([], starts)) == agent
