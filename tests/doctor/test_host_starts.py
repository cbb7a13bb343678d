"""Servers that come up in a shell, and not where a host starts the aggregator."""

import os
import sys
from collections.abc import Sequence

import pytest

from aggregator.doctor.checks.host_starts import LostServer, of_host_start
from aggregator.doctor.finding import CheckFinding
from aggregator.doctor.gather.one_session import ToldStates
from aggregator.doctor.gather.stdio_session import stdio_session
from tests.doctor.place import Place

INSTALL = "aggregator install cursor --replace"


def found(
    lacking: Sequence[str], words: Sequence[str] = ("it ended",), reason: str = "its process ended"
) -> CheckFinding:
    lost = LostServer("box", "/a/aggregator.json: mcpServers.box", reason, words, lacking)
    (finding,) = of_host_start("Cursor", INSTALL, 12.0, [lost], {"box": 0.3})
    return finding


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("SSL: CERTIFICATE_VERIFY_FAILED", "NODE_EXTRA_CA_CERTS"),
        ("connection timed out", "HTTPS_PROXY"),
        ("npm error 404 Not Found: registry", "NPM_CONFIG_REGISTRY"),
        ("env: node: No such file or directory", "PATH"),
        ("I lack MY_OWN", "MY_OWN"),
    ],
)
def test_the_variable_that_the_last_words_are_about_comes_first(words: str, first: str) -> None:
    lacking = ["HTTPS_PROXY", "MY_OWN", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_REGISTRY", "PATH", "XDG_CACHE_HOME"]
    assert f"Its last words: {words}. {first}, " in found(lacking, [words]).message


def test_a_fault_of_the_machine_is_not_laid_to_a_variable() -> None:
    finding = found(["HTTPS_PROXY"], [], "'box' could not be started: [Errno 24] Too many open files")
    assert finding.code == "server_environment"
    assert "too many files are open" in finding.message
    assert "ulimit -n" in str(finding.fix)
    assert "HTTPS_PROXY" not in f"{finding.message} {finding.fix}"


def test_the_path_is_named_if_nothing_else_differs_or_a_program_is_missing() -> None:
    assert "PATH is set" in found(["PATH"]).message
    assert "PATH" not in found(["PATH", "PIP_CERT"]).message


def test_the_mend_says_what_install_writes_and_what_a_person_has_to() -> None:
    finding = found(["PIP_CERT", "TOKEN"])
    assert finding.fix is not None
    assert finding.fix.startswith(f"Run `{INSTALL}`, which writes PIP_CERT into our entry. Put TOKEN under")
    assert "mcpServers.box" in str(found([]).fix)
    assert INSTALL not in str(found(["TOKEN"]).fix)


def test_a_server_of_which_nothing_was_heard() -> None:
    assert "it had not come up after 12 s (here it takes 0.3 s)" in found(["PATH"], [], "").message


@pytest.mark.parametrize("reason", ["", "it did not answer within 12 s of connecting (`limits.connect_timeout`)"])
def test_a_time_that_was_too_short_is_told_as_slow_and_proves_no_difference(reason: str) -> None:
    finding = found(["PATH", "HTTPS_PROXY"], [], reason)
    assert (finding.code, finding.severity) == ("server_slow", "warning")
    assert finding.fix is not None
    assert finding.fix.startswith("Try again when this machine has less to do, or with a longer `--timeout`.")
    assert f"HTTPS_PROXY is set in this shell, and not so there, which `{INSTALL}` or" in finding.fix
    assert "PATH" not in str(found(["PATH"], [], reason).fix)
    assert found(["PATH"]).code == "server_not_for_host"


def test_last_words_are_safe_for_a_terminal_and_cut() -> None:
    message = found(["PATH"], ["\x1b[31m\u202ered" + "x" * 5_000]).message
    assert message.isprintable()
    assert len(message) < 700


@pytest.mark.parametrize("form", ["05:09:12.268 WARNING upstream.lifecycle.state: {}", "json"])
def test_states_are_read_from_both_forms_of_the_log(form: str) -> None:
    told = ToldStates()

    def say(logger: str, message: str) -> None:
        plain = f"05:09:12.268 INFO    {logger} [worker 2] [trace 0af76519]: {message}"
        event = f'{{"time": "x", "level": "info", "logger": "aggregator.{logger}", "message": "{message}"}}'
        told.take(event if form == "json" else plain)

    say("upstream.lifecycle.state", "server up is ready")
    assert told.settled(["up"])
    assert not told.settled(["up", "down"])
    say("server.down", "last words: these")
    assert not told.settled(["down"])
    say("upstream.lifecycle.state", "server down is unavailable: its process ended; next try in 1s")
    say("upstream.lifecycle.state", "server down is still unavailable: it is in a crash loop")
    assert told.settled(["up", "down"])
    assert told.servers["down"].reason == "it is in a crash loop"
    assert list(told.servers["down"].words) == ["last words: these"]
    told.ending = True
    say("upstream.lifecycle.state", "server up is stopped")
    assert told.servers["up"].state == "ready"
    told.ending = False
    for line in ("", "{", '{"a": 1}', "Traceback (most recent call last):", "[] INFO"):
        told.take(line)
    assert set(told.servers) == {"up", "down"}


@pytest.mark.slow
async def test_a_server_that_is_slow_where_the_host_starts_it_is_not_called_lost(place: Place) -> None:
    """E9: nothing failed there: the time of the check was over."""
    place.configure({"box": place.server("--silent-without", "REQUESTS_CA_BUNDLE")}, expose="search")
    place.env["REQUESTS_CA_BUNDLE"] = "/etc/ssl/own-ca.pem"
    place.install()
    examined = await place.examine("--host", "claude-desktop", "--timeout", "20")
    finding = examined.of("server_slow")
    assert "box starts more slowly where Claude Desktop starts the aggregator" in finding["message"]
    assert "Try again when this machine has less to do" in finding["fix"]
    assert "server_not_for_host" not in examined.codes


@pytest.mark.slow
async def test_each_such_server_is_named_with_its_last_words(place: Place) -> None:
    """E9: one that needs nothing is not named; the words of a server move no cursor."""
    place.configure({"box": place.server("--needs", "REQUESTS_CA_BUNDLE"), "fine": place.server()}, expose="search")
    place.env["REQUESTS_CA_BUNDLE"] = "/etc/ssl/own-ca.pem"
    place.install()
    examined = await place.examine("--host", "claude-desktop")
    findings = [one for one in examined.report["findings"] if one["code"] == "server_not_for_host"]
    (finding,) = findings
    assert "box comes up in this shell, and not where Claude Desktop" in finding["message"]
    assert "no certificate for REQUESTS_CA_BUNDLE" in finding["message"]
    assert finding["message"].isprintable()


# A gateway whose list has three pages.
PAGED = """
import json, sys
PAGES = {"": ("a", "1"), "1": ("b", "2"), "2": ("c", None)}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
    elif message["method"] == "tools/list":
        name, following = PAGES[message["params"].get("cursor", "")]
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}}]}
        result |= {"nextCursor": following} if following else {}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_every_page_of_a_list_is_read() -> None:
    session = await stdio_session(sys.executable, ["-c", PAGED], os.environ, None, None, 20.0)
    assert (session.fault, session.names) == (None, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("declares", "fix"),
    [
        (None, "Nothing, if Cursor offers sampling and roots"),
        (("roots", "sampling"), "Nothing: Cursor is known to offer sampling and roots."),
        (("roots",), "another host: Cursor is not known to offer sampling."),
        ((), "not known to offer sampling and roots."),
    ],
)
def test_a_wanted_capability_is_held_against_what_the_host_declares(declares: tuple[str, ...] | None, fix: str) -> None:
    lost = LostServer("box", "/a/aggregator.json: mcpServers.box", "client lacks sampling and roots", (), ())
    (finding,) = of_host_start("Cursor", INSTALL, 12.0, [lost], {}, declares)
    assert finding.code == "server_wants_capability"
    assert fix in str(finding.fix)
