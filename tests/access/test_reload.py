"""Policy files that are edited while hosts are connected."""

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.app.reload import policy_reload as reload
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.views import Views
from aggregator.policy.live import BROKEN_EFFECT, LivePolicies, Reloaded
from aggregator.policy.rulebook import AgentRules, Ruling
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import GatewayHarness, error_data, tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS, OpenHarness, SecuredHarness, write_policies
from tests.end_to_end.scripted_host import LEGACY, MODERN, Call, HttpWire, ScriptedHost
from tests.peers.toolbox import Json
from tests.policy.build import book
from tests.polling import until

TOOLS: Final = [tool("get"), tool("put"), tool("hold"), tool("release"), tool("witness")]
CHANGED: Final = "notifications/tools/list_changed"


def ruled(*allow: str, two: tuple[str, ...] = ("crm.get",), **more: Any) -> Json:
    return {"agents": {"one": {"allow": list(allow), **more}, "two": {"allow": list(two)}}}


@pytest.mark.parametrize("host_kind", HOST_KINDS)
async def test_an_edit_takes_effect_and_drops_nothing(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """F6: for the next call, at every frontend, while a call of before is still running."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"crm": toolbox.config_entry()}, ruled("crm.*"))
    async with harness.connect_as(host_kind, "one") as host:
        held = host.call("crm.hold", {"key": "k"})
        await host.call("crm.witness", {"entry": "started k"}).result()
        before = harness.revision
        harness.set_policies(ruled("crm.get"))
        await harness.wait_for_policies(before)
        assert [one["name"].partition("get")[1] for one in await host.list()] == ["get"]
        assert (await host.call("crm.put").result())["isError"] is True
        before = harness.revision
        harness.set_policies(ruled("crm.get", "crm.release"))
        await harness.wait_for_policies(before)
        await host.call("crm.release", {"key": "k"}).result()
        assert (await held.result())["content"][0]["text"] == "k"
    assert "put" not in [call["name"] for call in toolbox.calls]


BROKEN: Final = {
    "no YAML": "agents: [",
    "a misspelt field": {"agents": {"one": {"alow": ["*"]}}},
    "a bad pattern": {"agents": {"one": {"allow": ["[a.*"]}}},
    "a bad schema": {"agents": {"one": {"arguments": {"crm.*": {"$ref": "#/$defs/none"}}}}},
    "a ring of roles": {"roles": {"r": {"roles": ["r"]}}},
    "no UTF-8": "agents: \udcff",
    "too deep": "agents: " + "[" * 2_000,
    "a huge number": {"agents": {"one": {"limits": {"*": {"per_minute": 10**400}}}}},
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_file_changes_nothing_and_is_shown(
    open_harness: OpenHarness, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """F6: in the log and on `/readyz`, until it is mended; then the mended rules count."""
    harness = open_harness({"crm": RecordingToolbox(TOOLS).config_entry()}, ruled("crm.get"))
    before = harness.revision
    content = BROKEN[name]
    if isinstance(content, str) and "\udcff" in content:
        (harness.policies / "broken.yaml").write_bytes(content.encode("utf-8", "surrogateescape"))
    else:
        write_policies(harness.policies, content, "broken.yaml")

    async def shown() -> bool:
        report = (await harness.ready())["policies"]
        return report.get("effect") == BROKEN_EFFECT and any("broken.yaml" in problem for problem in report["problems"])

    with caplog.at_level(logging.ERROR):
        await until(shown)
        await until(lambda: "broken.yaml" in caplog.text)
    assert harness.revision == before
    async with harness.connect_as(("http", LEGACY[-1]), "one") as host:
        assert [one["name"] for one in await host.list()] == ["crm.get"]
    write_policies(harness.policies, {"agents": {"one": {"allow": ["crm.put"]}}}, "broken.yaml")
    await harness.wait_for_policies(before)
    assert (await harness.ready())["policies"]["broken"] is False


IDLE: Final = "agents.two: Nothing is allowed to this agent, so it may do nothing."


@pytest.mark.parametrize("idle", [{}, {"deny": ["crm.put"]}, {"roles": ["none"]}], ids=["empty", "denied", "role"])
async def test_an_agent_that_may_do_nothing_is_in_the_log(
    open_harness: OpenHarness, caplog: pytest.LogCaptureFixture, idle: Json
) -> None:
    """Once at the start and once at the reload that makes it so; never one with an `allow`, or that reads metrics."""
    others = {"one": {"allow": ["crm.get"]}, "meter": {"roles": ["metrics"]}}
    roles = {"none": {"deny": ["crm.*"]}, "some": {"allow": ["crm.get"]}, "metrics": {}}
    with caplog.at_level(logging.WARNING):
        harness = open_harness(
            {"crm": RecordingToolbox(TOOLS).config_entry()}, {"agents": {**others, "two": idle}, "roles": roles}
        )
        # The log at the start comes from a task that the reload begins.
        await until(lambda: IDLE in caplog.text)
        assert sum("Nothing is allowed" in line for line in caplog.messages) == 1
        assert "agents.one: Nothing" not in caplog.text
        assert "agents.meter: Nothing" not in caplog.text
        caplog.clear()
        before = harness.revision
        harness.set_policies({"agents": {**others, "two": {"roles": ["some"]}}, "roles": roles})
        await harness.wait_for_policies(before)
        before = harness.revision
        assert "Nothing is allowed" not in caplog.text
        harness.set_policies({"agents": {**others, "two": idle}, "roles": roles})
        await harness.wait_for_policies(before)
        await until(lambda: IDLE in caplog.text)


async def test_files_that_vanish_leave_the_rules(open_harness: OpenHarness) -> None:
    """F6: never open because there is no file any more."""
    harness = open_harness({"crm": RecordingToolbox(TOOLS).config_entry()}, ruled("crm.get"))
    for path in harness.policies.iterdir():
        path.unlink()

    async def shown() -> bool:
        return bool((await harness.ready())["policies"]["problems"])

    await until(shown)
    async with harness.connect_as(("http", MODERN), "one") as host:
        assert [one["name"] for one in await host.list()] == ["crm.get"]
    async with harness.client() as client:
        assert (await client.post("/mcp", json={})).status_code == 401


async def test_every_edit_is_noticed(open_harness: OpenHarness) -> None:
    """F6: also one of the same size and time, as a restored backup has."""
    harness = open_harness({"crm": RecordingToolbox(TOOLS).config_entry()}, ruled("crm.get"))
    main = harness.policies / "main.yaml"
    before, status = harness.revision, main.stat()
    made = harness.policies / ".new"
    made.write_text(json.dumps(ruled("crm.put")))
    os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert made.stat().st_size == status.st_size
    os.replace(made, main)
    await harness.wait_for_policies(before)


async def test_an_editors_lock_blinds_nobody(open_harness: OpenHarness) -> None:
    """F6: Emacs leaves `.#name.yaml`, a link that leads nowhere, while a buffer is changed."""
    harness = open_harness({"crm": RecordingToolbox(TOOLS).config_entry()}, ruled("crm.get"))
    for at in range(40):
        (harness.policies / f".#{at}.yaml").symlink_to("somebody@host.1234")
    # What is looked at next includes the links, whatever the order of the folder.
    await until(lambda: harness.app.policy_reload is not None)
    before = harness.revision
    harness.set_policies(ruled("crm.put"))
    await harness.wait_for_policies(before)
    before = harness.revision
    harness.set_policies(ruled("crm.get", "crm.put"))
    await harness.wait_for_policies(before)


async def listening(host: ScriptedHost) -> Call | None:
    """Open the way on which this host hears of changes; the subscription where it is one."""
    if host.modern:
        subscription = host.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await host.inbox.named("notifications/subscriptions/acknowledged")
        return subscription
    if isinstance(host.wire, HttpWire):
        host.wire.stand()
        await host.inbox.named("standing")
    return None


NOTIFIED_KINDS: Final = [("stdio", LEGACY[-1]), ("sse", LEGACY[-1]), ("http", LEGACY[-1]), ("http", MODERN)]
STEPS: Final[dict[str, tuple[Json, bool]]] = {
    "a tool more": (ruled("crm.get", "crm.put"), True),
    "a tool less": (ruled(), True),
    "tightened": (ruled("crm.get", arguments={"crm.get": {"required": ["x"]}}), True),
    "other names": (ruled("crm.get", names="compatible"), True),
    "a limit": (ruled("crm.get", limits={"*": {"per_minute": 5}}), False),
    "a person": (ruled("crm.get", confirm=["crm.get"]), False),
    "the same": (ruled("crm.get", "crm.get"), False),
}


@pytest.mark.parametrize(
    ("host_kind", "step"),
    [*((NOTIFIED_KINDS[0], step) for step in STEPS), *((host_kind, "a tool more") for host_kind in NOTIFIED_KINDS[1:])],
)
async def test_only_hosts_whose_list_changed_are_told(
    open_harness: OpenHarness, host_kind: tuple[str, str], step: str
) -> None:
    """F6, C5: on the standing stream, the session or the subscription; a limit is no change of the list."""
    policies, changes = STEPS[step]
    # Listed as it is at this frontend, so that the step with other names changes them.
    harness = open_harness(
        {"crm": RecordingToolbox(TOOLS).config_entry()}, ruled("crm.get"), http={}, stdio={"names": "canonical"}
    )
    async with harness.connect_as(host_kind, "one") as one, harness.connect_as(host_kind, "two") as two:
        subscriptions = [await listening(host) for host in (one, two)]
        await one.list()
        await two.list()
        before = harness.revision
        harness.set_policies(policies)
        await harness.wait_for_policies(before)
        # A change for both after it: whatever was told before has come by then.
        if changes:
            await one.inbox.named(CHANGED)
        before = harness.revision
        harness.set_policies({"agents": {"one": {"allow": ["crm.h*"]}, "two": {"allow": ["crm.h*"]}}})
        await harness.wait_for_policies(before)
        await two.inbox.named(CHANGED)
        await one.inbox.named(CHANGED, 1 + changes)
        heard = [len([m for m in host.inbox.messages if m.get("method") == CHANGED]) for host in (one, two)]
        assert heard == [1 + changes, 1]
        for call in subscriptions:
            if call is not None:
                call.drop()


@pytest.fixture
def swapped_between(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The reload runs in a thread: the rules may be swapped between any two rulings. `[desk, rules, after]`."""
    plan: list[Any] = []
    ruling = AgentRules.rule

    def rule(self: AgentRules, record: ToolRecord, *, trusted: bool) -> Ruling:
        found = ruling(self, record, trusted=trusted)
        if plan:
            plan[2] -= 1
            if plan[2] == 0:
                plan[0].live.rulebook = plan[1]
        return found

    monkeypatch.setattr(AgentRules, "rule", rule)
    return plan


@pytest.mark.parametrize("after", [1, 2, 3])
async def test_a_list_is_of_one_rulebook(config: MakeConfig, swapped_between: list[Any], after: int) -> None:
    """F6: the old list or the new one, never some of each."""
    tools = [tool(name) for name in "abcd"]
    old = {"agents": {"one": {"allow": ["crm.a", "crm.b"]}}}
    new = {"agents": {"one": {"allow": ["crm.c", "crm.d"]}}}
    harness = GatewayHarness(config("crm"), {"crm": tools}, old)
    swapped_between += [harness, book(new), after]
    listed = [one["name"] for one in await harness.listed(harness.host("one"))]
    assert listed in (["crm.a", "crm.b"], ["crm.c", "crm.d"])


@pytest.mark.parametrize("after", [1, 2, 3])
async def test_a_call_is_of_one_rulebook(
    config: MakeConfig, storage: str, swapped_between: list[Any], after: int
) -> None:
    """F6: whether it is allowed, hidden, confirmed and by whom: all by the old rules or all by the new."""
    old = {
        "agents": {"one": {"allow": ["crm.*"], "confirm": ["crm.get"], "confirm_fallback": "queue", "confirm_wait": 0}}
    }
    new = {"agents": {"one": {"allow": ["crm.put"], "denials": "hidden"}}}
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, old, storage)
    async with harness.app.database:
        swapped_between += [harness, book(new), after]
        answer = await harness.call(harness.host("one"), "crm.get")
    assert "error" in answer or error_data(answer)["code"] == "approval_pending"
    assert harness.sent == []


async def test_a_question_is_of_one_rulebook(config: MakeConfig, storage: str, swapped_between: list[Any]) -> None:
    """F6, B6: the same where a person has to agree by the old rules and nobody by the new."""
    old = {"agents": {"one": {"allow": ["crm.*"], "confirm": ["crm.get"], "confirm_fallback": "deny"}}}
    new = {
        "agents": {"one": {"allow": ["crm.*"], "confirm": ["crm.put"], "confirm_fallback": "queue", "confirm_wait": 0}}
    }
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, old, storage)
    async with harness.app.database:
        swapped_between += [harness, book(new), 2]
        answer = await harness.call(harness.host("one"), "crm.get")
    assert "isError" not in answer["result"] or error_data(answer)["code"] == "not_confirmed"


@pytest.mark.parametrize("stops", [True, False])
async def test_half_a_file_does_not_come_into_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    """F6: It may say what is allowed and not yet what is denied; whoever writes for ever is not waited for for ever."""
    monkeypatch.setattr(reload, "EVERY", 0.001)
    monkeypatch.setattr(reload, "STILL", 0.0)
    if not stops:
        monkeypatch.setattr(reload, "PATIENCE", 0.05)
    file = tmp_path / "main.yaml"
    file.write_text("agents: {}\n")
    live = LivePolicies(tmp_path)
    looked, read = 0, asyncio.Event()
    look = reload.signature

    def written_to(folder: Path) -> reload.Signature:
        nonlocal looked
        looked += 1
        if looked > 1 and (looked < 9 or not stops):
            with file.open("a") as text:
                text.write("# one line more\n")
        if looked == 9 and stops:
            with file.open("a") as text:
                text.write("defaults: {deny: ['*']}\n")
        return look(folder)

    class Observer:
        def policies_read(self, reloaded: Reloaded) -> None:
            assert not stops or (live.rulebook is not None and looked > 9)
            read.set()

    monkeypatch.setattr(reload, "signature", written_to)
    watch = reload.PolicyReload(live, CurrentCatalog(), Views(live, {}), Observer())
    async with Tasks("a test") as tasks, asyncio.timeout(10):
        tasks.start(watch.run())
        await read.wait()
        await tasks.cancel()


async def test_a_storm_of_reloads(open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """F6: files are written as fast as it goes while hosts list and call; nothing is lost, no answer is of both."""
    monkeypatch.setattr("aggregator.app.reload.policy_reload.EVERY", 0.001)
    monkeypatch.setattr("aggregator.app.reload.policy_reload.STILL", 0.001)
    monkeypatch.setattr("aggregator.app.reload.policy_reload.PATIENCE", 0.0)
    names = [f"t{at:02}" for at in range(40)]
    toolbox = RecordingToolbox([tool(name, {"n": {"type": "integer"}}) for name in names])
    halves = {"even": names[::2], "odd": names[1::2]}
    rulebooks = [
        {
            "agents": {
                agent: {
                    "allow": [f"crm.{name}" for name in half],
                    "arguments": {"crm.*": {"properties": {"n": {"maximum" if side == "even" else "minimum": 0}}}},
                }
                for agent in ("one", "two")
            }
        }
        for side, half in halves.items()
    ]
    harness = open_harness({"crm": toolbox.config_entry()}, rulebooks[0])
    over = asyncio.Event()
    seen: set[str] = set()

    async def edit() -> None:
        at = 0
        while not over.is_set():
            at += 1
            harness.set_policies(rulebooks[at % 2])
            await asyncio.sleep(0)

    async def use(host: ScriptedHost) -> None:
        rounds = 0
        while rounds < 25 or len(seen) < 2:
            rounds += 1
            listed = await host.list()
            own = sorted(one["name"].replace("__", ".").removeprefix("crm.") for one in listed)
            (side,) = [side for side, half in halves.items() if half == own]
            bounds = {json.dumps(one["inputSchema"]["allOf"]) for one in listed}
            assert len(bounds) == 1
            assert ("maximum" in bounds.pop()) is (side == "even")
            seen.add(side)
            for name in (names[0], names[1]):
                result = await host.call(f"crm.{name}", {"n": 5 if name == names[0] else -5}).result()
                code = result["_meta"]["aggregator/error"]["code"]
                assert code in ("tool_not_allowed", "invalid_arguments")

    editing = asyncio.create_task(edit())
    try:
        async with asyncio.timeout(20):
            await _all_at_once(harness, use)
    finally:
        over.set()
        await editing
    assert seen == {"even", "odd"}
    assert not toolbox.calls


async def _all_at_once(harness: SecuredHarness, use: Any) -> None:
    ways = [*HOST_KINDS, *HOST_KINDS[:2]]

    async def one(host_kind: tuple[str, str], agent: str) -> None:
        async with harness.connect_as(host_kind, agent) as host:
            await use(host)

    await asyncio.gather(*(one(host_kind, ("one", "two")[at % 2]) for at, host_kind in enumerate(ways)))
