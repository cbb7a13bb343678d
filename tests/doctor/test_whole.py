"""`aggregator doctor` as a whole: a healthy installation, what is printed, exit codes, bounds, secrets.

The counts of tools have the tool to read on in them: a host is shown it at the end of a whole list.
"""

import re
import sys

import pytest

from aggregator.doctor.gather.one_session import session_with
from tests.doctor.place import SECRET, Place
from tests.doctor.seeds_of_config import ALLOW


def healthy(place: Place, host: str = "claude-desktop") -> None:
    place.configure({"box": place.server(env={"API_TOKEN": "${DOCTOR_TOKEN}"}), "other": place.server("--tools", "1")})
    place.policy('agents:\n  local:\n    allow: ["box.*", "other.*"]\n')
    place.install({"aggregator": place.entry(env={"DOCTOR_TOKEN": SECRET})}, host)
    place.env["DOCTOR_TOKEN"] = SECRET


def test_the_instructions_are_part_of_the_cost() -> None:
    """F1: A host gives them to its model in every conversation, as it does the list."""
    tools = [{"name": "box.open", "inputSchema": {"type": "object"}}]
    alone, whole = session_with({}, tools), session_with({"instructions": "x" * 400}, tools)
    assert whole.tokens - alone.tokens == 100
    assert session_with({"instructions": 1, "serverInfo": None}, tools) == alone


@pytest.mark.parametrize("host", ["claude-desktop", "cursor"])
async def test_a_healthy_installation_has_nothing_in_the_way(place: Place, host: str) -> None:
    """F1: Started as the host starts it, the model sees every tool; no warning, exit 0."""
    healthy(place, host)
    examined = await place.examine("--host", host)
    assert examined.result.code == 0, examined.report
    assert examined.codes - {"host_schemas_mended"} == {"model_sees", "versions"}
    (seen,) = examined.report["seen"]
    assert (seen["host"], seen["agent"], seen["tools"], seen["frontend"]) == (host, "local", 4, "stdio")
    assert seen["tokens"] > 0
    assert seen["tokens_with_search"] > 0
    assert str(place.config) == examined.report["config"]


async def test_without_a_host_every_host_that_starts_it_is_tried_once(place: Place) -> None:
    """F1: What two hosts see is told for each, also where their starts cannot differ."""
    healthy(place)
    place.install({"aggregator": place.entry(env={"DOCTOR_TOKEN": SECRET})}, "cursor")
    examined = await place.examine()
    assert examined.codes - {"host_schemas_mended"} == {"model_sees", "versions"}
    assert [(seen["host"], seen["tools"]) for seen in examined.report["seen"]] == [("claude-desktop", 4), ("cursor", 4)]


async def test_over_http_with_the_key_of_the_host(place: Place) -> None:
    """F1: A host that connects by address is tried with its own key, as the agent of that key."""
    place.configure()
    place.policy(ALLOW)
    made = await place.aggregator("keys", "new", "local", "--expires", "30d")
    await place.serve()
    headers = {"Authorization": f"Bearer {made.out.strip()}"}
    place.install({"aggregator": {"url": f"http://127.0.0.1:{place.port}/mcp", "headers": headers}}, "cursor")
    examined = await place.examine("--host", "cursor")
    assert examined.codes - {"host_schemas_mended"} == {"model_sees", "versions", "gateway_answers"}, examined.report
    (seen,) = examined.report["seen"]
    assert (seen["frontend"], seen["agent"], seen["tools"]) == ("http", "local", 3)
    assert made.out.strip() not in examined.result.out


async def test_without_connecting_nothing_is_started(place: Place) -> None:
    started = place.home / "started"
    place.configure({"box": {"command": "sh", "args": ["-c", f"touch {started}"]}})
    examined = await place.examine("--no-connect")
    assert examined.codes == {"versions"}
    assert not started.exists()
    assert not (place.home / ".local").exists()


async def test_people_are_told_in_plain_lines(place: Place) -> None:
    """E9: The worst first, each with its mend on a line of its own; the last line counts them."""
    place.configure({"box": place.server(), "gone": {"command": "no-such-program", "timeout": 30_000}})
    printed = await place.aggregator("doctor")
    assert printed.code == 1
    lines = printed.out.splitlines()
    assert lines[0] == f"configuration: {place.config}"
    assert lines[1].startswith("error   server_command_missing: gone: the command 'no-such-program' was not found")
    assert lines[3].startswith("        fix: Install it")
    assert any(line.startswith("warning timeout_milliseconds:") for line in lines)
    assert lines[-1] == "1 error, 1 warning"
    assert "\x1b" not in printed.out
    assert printed.err == ""
    place.configure()
    good = await place.aggregator("doctor")
    assert good.code == 0
    assert good.out.splitlines()[-2].startswith("A host over stdio, as the agent local, sees 3 tools, about ")
    assert good.out.splitlines()[-1] == "Nothing is in the way."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "emacs"), "There is no host 'emacs'"),
        (("--agent", "no agent"), "--agent: The name of an agent"),
        (("--url", "ftp://x"), "does not begin with http"),
        (("--timeout", "0"), "greater than or equal to 2"),
    ],
)
async def test_wrong_usage_ends_with_2(place: Place, words: tuple[str, ...], said: str) -> None:
    """F8: An option that cannot be used is told on stderr, exit 2."""
    ended = await place.aggregator("doctor", *words)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())
    assert not ended.out


async def test_an_examination_ends_in_time_although_nothing_answers(place: Place) -> None:
    """D7: Servers and a start that hang cost no more than the time limit and the end of the programs."""
    place.configure({f"box{at}": place.server("--silent", f"--version={at}") for at in range(3)})
    program = place.program(
        "aggregator", f'#!/bin/sh\nexec {sys.executable} {place.server()["args"][0]} --silent "$@"\n'
    )
    place.install({"aggregator": {"command": str(program)}})
    examined = await place.examine("--timeout", "4")
    assert {"server_hangs", "host_start_hangs"} <= examined.codes
    assert examined.report["seconds"] < 12


async def test_no_secret_is_printed(place: Place) -> None:
    """D1: Neither a value of the file, nor one of a host's file, nor the last words of a server show a secret."""
    servers = {
        "words": place.server("--die", f"cannot sign in with {SECRET}", env={"API_TOKEN": SECRET}),
        "args": {"command": "no-such", "args": ["--api-key", SECRET]},
        "web": {"type": "http", "url": f"http://user:{SECRET}@127.0.0.1:9/mcp?key={SECRET}"},
    }
    place.configure(servers, storage=f"postgresql://user:{SECRET}@127.0.0.1:9/x")
    place.install({"aggregator": place.entry("--bad", SECRET, env={"PASSWORD": SECRET})})
    address = f"http://user:{SECRET}@127.0.0.1:{place.port}/mcp?key={SECRET}"
    place.install({"aggregator": {"url": address, "headers": {"X-Api-Key": SECRET}}}, "cursor")
    for options in ((), ("--no-connect",), ("--host", "claude-desktop")):
        for form in ((), ("--json",)):
            printed = await place.aggregator("doctor", *options, *form)
            assert printed.out
            assert SECRET not in printed.out + printed.err
            assert "Traceback" not in printed.err


async def test_fix_makes_the_safe_mends_and_names_them(place: Place) -> None:
    """D4: Only permissions are touched, and each change is told with the mode that was."""
    place.configure({"box": place.server(env={"API_TOKEN": SECRET})})
    place.config.chmod(0o644)
    policy = place.policy(ALLOW)
    policy.chmod(0o664)
    before = place.config.read_bytes(), policy.read_bytes()
    mended = await place.examine("--no-connect", "--fix")
    assert {one["code"] for one in mended.report["mended"]} == {"config_open", "policy_open"}
    assert all(one["done"] and re.search(r"it was 6[46]4", one["message"]) for one in mended.report["mended"])
    assert (place.config.read_bytes(), policy.read_bytes()) == before
    assert place.config.stat().st_mode & 0o777 == 0o600
    assert policy.stat().st_mode & 0o777 == 0o644
    assert mended.result.code == 0
    again = await place.examine("--no-connect", "--fix")
    assert again.report["mended"] == []
