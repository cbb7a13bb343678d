"""Webhooks: what is sent, how often, and what a receiver can do about it."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aggregator.notify.send import notifier as notifying
from aggregator.notify.send import receiver as receiving
from aggregator.notify.send.notifier import Notifier, ReachedLimit
from tests.deploy.authority import self_signed
from tests.notify.hook_server import SECRET, HookServer, Waits, ask, build, is_ours, receiver
from tests.polling import until


@pytest.fixture
async def hook() -> AsyncIterator[HookServer]:
    async with HookServer().running() as served:
        yield served


@asynccontextmanager
async def running(notifier: Notifier) -> AsyncIterator[Notifier]:
    """The notifier, ended in a hurry if the test fails."""
    hurry = asyncio.Event()
    async with notifier.running(hurry):
        try:
            yield notifier
        except BaseException:
            hurry.set()
            raise


def report(notifier: Notifier) -> Any:
    return notifier.report()["hook"]


async def test_a_message_is_signed_and_says_what_waits(hook: HookServer) -> None:
    """E5: a receiver that knows the secret can tell that the message is ours and unchanged."""
    async with running(build(receiver(f"{hook.url}/a?key=1", secret=SECRET, headers={"X-Team": "blue"}))) as notifier:
        ask(notifier)
        await until(lambda: report(notifier)["sent"] == 1)
    (got,) = hook.received
    assert is_ours(SECRET, got)
    assert not is_ours(SECRET, got._replace(body=got.body + b" "))
    assert got.headers["X-Team"] == "blue"
    assert got.headers["Content-Type"] == "application/json"
    message = got.json
    assert message["type"] == "approval.waiting"
    assert message["timestamp"].endswith("Z")
    assert message["data"] == {
        "text": "sales asks: may it call crm.send?",
        "approval": "apr_1",
        "agent": "sales",
        "tool": "crm.send",
        "server": "crm",
        "rule": 'confirm "crm.send"',
        "rule_source": "shop.yaml:9",
        "link": "https://tools.example.com/console/approvals/apr_1",
    }


async def test_a_failure_is_tried_again_with_the_same_id(hook: HookServer, caplog: pytest.LogCaptureFixture) -> None:
    """E5: 500, then 429 with a time, then taken; each attempt has a signature of its own time; one line of the log."""
    waits = Waits()
    hook.answers = [web.Response(status=500), web.Response(status=429, headers={"Retry-After": "120"})]
    with caplog.at_level(logging.INFO):
        async with running(build(receiver(hook.url, secret=SECRET), waits=waits)) as notifier:
            ask(notifier)
            await until(lambda: report(notifier)["sent"] == 1)
            assert report(notifier) | {"last_sent": None} == {
                "to": f"{hook.url}/…",
                "state": "ok",
                "problem": None,
                "sent": 1,
                "failed": 0,
                "dropped": 0,
                "waiting": 0,
                "last_sent": None,
            }
    assert len({got.headers["webhook-id"] for got in hook.received}) == 1
    assert len({got.body for got in hook.received}) == 1
    assert [is_ours(SECRET, got) for got in hook.received] == [True] * 3
    first, named = waits.asked
    assert 0.5 <= first <= 1.0
    assert named == 120.0
    said = [record.getMessage() for record in caplog.records if record.name.startswith("aggregator.notify.send")]
    assert [line.split(": ")[0] for line in said] == ["notify", "notify"]
    assert "could not be told: HTTP 500" in said[0]
    assert "can be reached again" in said[1]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_what_may_pass_is_tried_again(hook: HookServer, status: int) -> None:
    """E5: a later attempt is taken, and nothing counts as lost."""
    hook.answers = [web.Response(status=status)]
    async with running(build(receiver(hook.url), waits=Waits())) as notifier:
        ask(notifier)
        await until(lambda: report(notifier)["sent"] == 1)
        assert report(notifier)["failed"] == 0
    assert len(hook.received) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 405, 410, 413, 422])
async def test_a_refusal_is_not_tried_again(hook: HookServer, status: int) -> None:
    """E5: nor would it be taken later."""
    hook.answers = [web.Response(status=status)]
    async with running(build(receiver(hook.url), waits=Waits())) as notifier:
        ask(notifier)
        await until(lambda: report(notifier)["failed"] == 1)
    assert len(hook.received) == 1


async def test_a_receiver_cannot_send_us_elsewhere(hook: HookServer) -> None:
    """A redirect is not followed, and what it answers is bounded and shown on one line."""
    hook.answers = [
        web.Response(status=302, headers={"Location": f"{hook.url}/elsewhere"}),
        web.Response(status=400, text="no\x1b[31m\n\u202e" + "no " * 55 + "canary-" + "x" * 100_000),
    ]
    async with running(build(receiver(f"{hook.url}/here"), waits=Waits())) as notifier:
        ask(notifier)
        await until(lambda: report(notifier)["failed"] == 1)
        assert "redirects are not followed" in report(notifier)["problem"]
        ask(notifier)
        await until(lambda: report(notifier)["failed"] == 2)
        problem = report(notifier)["problem"]
    assert problem.startswith('HTTP 400: "no\\\\u001b[31m')
    assert len(problem) < 300
    assert "canary" not in problem, "half a secret would not be recognised"
    assert problem.isprintable()
    assert [got.path for got in hook.received] == ["/here", "/here"]


async def test_a_dead_receiver_costs_bounded_attempts(caplog: pytest.LogCaptureFixture) -> None:
    """Six attempts with growing waits, then the notice is given up; said once, without the address."""
    waits = Waits()
    async with running(build(receiver("http://127.0.0.1:1/T0/B0/secret-part-1234"), waits=waits)) as notifier:
        ask(notifier)
        ask(notifier)
        await until(lambda: report(notifier)["failed"] == 2)
        assert report(notifier)["problem"] == "nothing listens there"
        assert report(notifier)["state"] == "failing"
    assert len(waits.asked) == 2 * receiving.ATTEMPTS - 1
    assert all(2**n / 2 <= wait <= 2**n for n, wait in zip(range(6), waits.asked, strict=False))
    assert max(waits.asked) <= receiving.LONGEST_WAIT
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("aggregator.notify.send")]
    assert len(lines) == 1
    assert "secret-part" not in caplog.text


@pytest.mark.parametrize(("secure", "said"), [(True, "its certificate is not one"), (False, "ServerDisconnected")])
async def test_why_a_receiver_cannot_be_told(tmp_path: Path, secure: bool, said: str) -> None:
    """A certificate that nobody vouches for, and a connection that ends without an answer, are told apart."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if secure else None
    if context is not None:
        context.load_cert_chain(*self_signed(tmp_path / "own"))

    def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
    url = f"http{'s' if secure else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, running(build(receiver(url), waits=Waits())) as notifier:
        ask(notifier)
        await until(lambda: report(notifier)["failed"] == 1)
        assert report(notifier)["problem"].startswith(said)


async def test_a_flood_to_a_hanging_receiver_is_bounded_and_counted(hook: HookServer) -> None:
    """E5: what announces never waits: 10,000 notices are announced in one turn of the loop, and the newest stay."""
    hook.answers = [hook.hang]
    other = HookServer()
    async with other.running():
        # The one that hangs is not tried again meanwhile, however long the flood takes on a loaded machine.
        both = build(
            receiver(hook.url, timeout="10m"), receiver(other.url, name="other", events=["server.down"], grace="1ms")
        )
        async with running(both) as notifier:
            ask(notifier, id="first")
            await until(lambda: hook.received)
            for number in range(10_000):
                ask(notifier, id=f"apr_{number}")
            assert report(notifier)["waiting"] == receiving.QUEUE + 1
            assert report(notifier)["dropped"] == 10_000 - receiving.QUEUE
            # The other receiver is told meanwhile.
            notifier.server_down("crm", "gone")
            await until(lambda: other.received)
            assert len(hook.received) == 1
            hook.released.set()
            await until(lambda: report(notifier)["sent"] == receiving.QUEUE + 1)
    ids = [got.json["data"]["approval"] for got in hook.received]
    assert ids == ["first", *(f"apr_{number}" for number in range(10_000 - receiving.QUEUE, 10_000))]


async def test_a_hanging_receiver_has_a_time_limit(hook: HookServer) -> None:
    hook.answers = [hook.hang]
    async with running(build(receiver(hook.url, timeout="50ms"), waits=Waits())) as notifier:
        ask(notifier)
        await until(lambda: report(notifier)["sent"] == 1)
    assert len(hook.received) == 2


async def test_the_end_waits_a_moment_and_no_longer(
    hook: HookServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What waits at the end is sent; a receiver that cannot be reached, or hangs, does not hold up the end."""
    async with running(build(receiver(hook.url))) as notifier:
        for number in range(20):
            ask(notifier, id=f"apr_{number}")
    assert len(hook.received) == 20
    hook.answers = [hook.hang]
    monkeypatch.setattr(notifying, "LAST_MOMENT", 0.05)
    async with running(build(receiver(hook.url))) as notifier:
        ask(notifier)
        ask(notifier)
    assert "2 notices for hook were not delivered before the end" in caplog.text
    async with asyncio.timeout(10), running(build(receiver("http://127.0.0.1:1/"))) as notifier:
        ask(notifier)
        await until(lambda: report(notifier)["problem"])
    # In a hurry nothing is waited for.
    hook.answers, hurry = [hook.hang], asyncio.Event()
    monkeypatch.setattr(notifying, "LAST_MOMENT", 3600.0)
    hurry.set()
    async with asyncio.timeout(10), build(receiver(hook.url)).running(hurry):
        pass


async def test_what_is_too_old_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "TOO_OLD", -1.0)
    async with running(build(receiver("http://127.0.0.1:1/"))) as notifier:
        ask(notifier)
        await until(lambda: report(notifier)["dropped"] == 1)


HOSTILE = "<!channel> <https://evil.example|x> [x](https://evil.example) & **b** \x1b[31m\u202etxt\ud800 s3cr3t-value"


@pytest.mark.parametrize("form", ["json", "slack", "teams"])
async def test_what_peers_wrote_stays_text(hook: HookServer, form: str) -> None:
    """Names of agents, tools and servers make no mention, link or markup, hide nothing, and hold no secret."""
    async with running(build(receiver(hook.url, format=form, grace="1ms"))) as notifier:
        ask(notifier, agent=HOSTILE, tool=HOSTILE * 1000)
        notifier.server_down("crm", HOSTILE * 1000)
        notifier.announce(
            "tools.changed", None, "crm", lambda: notifier.writer.tools_changed("crm", [HOSTILE] * 500, [], ["a"])
        )
        notifier.limit_reached(ReachedLimit(HOSTILE, HOSTILE, None, None, None))
        await until(lambda: len(hook.received) == 4)
    for got in hook.received:
        assert got.body.isascii()
        assert len(got.body) < 20_000  # Standard Webhooks, Payload size; a card of Teams may have 28 KB.
        texts = list(_texts(got.json))
        assert all(text.isprintable() or text.count("\n") for text in texts)
        assert "s3cr3t-value" not in "".join(texts)
        if form == "slack":
            assert all("<!" not in text and "<https://evil" not in text for text in texts)
            assert all(block["text"]["verbatim"] for block in got.json["blocks"])
        if form == "teams":
            (attachment,) = got.json["attachments"]
            assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
            runs = [run for block in attachment["content"]["body"] for run in block["inlines"]]
            assert {run["type"] for run in runs} == {"TextRun"}
            assert {block["type"] for block in attachment["content"]["body"]} == {"RichTextBlock"}


def _texts(value: Any) -> Any:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


async def test_a_blip_is_not_announced_and_back_only_after_down(hook: HookServer) -> None:
    """A server that is back within the grace is no news; one that is switched off is not announced any more."""
    async with running(build(receiver(hook.url, grace="1h"))) as notifier:
        notifier.server_down("crm", "exit code 3")
        notifier.server_up("crm")
        notifier.server_up("erp")
    assert hook.received == []
    async with running(build(receiver(hook.url, grace="1ms", servers=["c*", "s*"]))) as notifier:
        notifier.server_down("crm", "exit code 3")
        notifier.server_down("erp", "is filtered out")
        await until(lambda: report(notifier)["sent"] == 1)
        notifier.server_down("crm", "still")
        notifier.server_up("crm")
        notifier.server_up("crm")
        notifier.server_up("erp")
        notifier.server_down("shop", "x")
        notifier.server_gone("shop")
        await until(lambda: report(notifier)["sent"] == 2)
    assert [got.json["type"] for got in hook.received] == ["server.down", "server.back"]
    assert hook.received[0].json["data"]["reason"] == "exit code 3"
    assert hook.received[0].json["data"]["text"] == "The server crm is down: exit code 3"


async def test_a_server_that_gave_no_reason(hook: HookServer) -> None:
    async with running(build(receiver(hook.url, grace="1ms"))) as notifier:
        notifier.server_down("crm", "")
        await until(lambda: report(notifier)["sent"] == 1)
    assert hook.received[0].json["data"]["text"] == "The server crm is down."
    assert "reason" not in hook.received[0].json["data"]


async def test_limits_are_gathered_by_agent_and_rule(hook: HookServer) -> None:
    def reached(agent: str, rule: str = "per_minute: 2") -> None:
        notifier.limit_reached(ReachedLimit(agent, "crm.get", "crm", rule, "shop.yaml:4"))

    async with running(build(receiver(hook.url, agents=["sales*"]))) as notifier:
        for _ in range(10_000):
            reached("sales")
        reached("sales", "concurrent: 1")
        reached("sales-2")
        reached("stock")
        await until(lambda: report(notifier)["sent"] == 3)
    # The end announces what was counted.
    times = [(got.json["data"]["agent"], got.json["data"]["times"]) for got in hook.received]
    assert times == [("sales", 1), ("sales", 1), ("sales-2", 1), ("sales", 9_999)]


async def test_agents_that_name_themselves_cannot_fill_the_memory() -> None:
    notifier = build(receiver("http://127.0.0.1:1/"))
    for number in range(5_000):
        notifier.limit_reached(ReachedLimit(f"agent-{number}", "t", None, "r", "s"))
    assert notifier.counts()["hook"].waiting + notifier.counts()["hook"].dropped == 1_000
    notifier.reconfigure([])


async def test_another_configuration_keeps_what_waits_and_who_is_down(hook: HookServer) -> None:
    """D11: a receiver with other settings gets what waited for it once; one that is as before goes on."""
    later = HookServer()
    async with later.running():
        hook.answers = [hook.hang]
        same = receiver(hook.url, name="same", events=["server.back"], grace="1ms")
        async with running(build(receiver(hook.url, grace="1ms"), same)) as notifier:
            notifier.server_down("crm", "x")
            await until(lambda: len(hook.received) == 1)
            ask(notifier)
            notifier.reconfigure([receiver(later.url, grace="1ms"), same, receiver(later.url, name="new", grace="1ms")])
            await until(lambda: notifier.counts()["new"].sent == 1 and report(notifier)["sent"] == 2)
            notifier.server_up("crm")
            await until(lambda: len(later.received) == 5 and notifier.counts()["same"].sent == 1)
            notifier.reconfigure([])
            ask(notifier)
            assert notifier.report() == {}
    kinds = [got.json["type"] for got in later.received]
    assert sorted(kinds) == ["approval.waiting", "server.back", "server.back", "server.down", "server.down"]
    assert [got.json["type"] for got in hook.received] == ["server.down", "server.back"]


async def test_a_notice_holds_nothing_that_json_cannot() -> None:
    notice = build().writer.tools_changed("crm", ["\ud800"], ["b"], [])
    assert json.loads(json.dumps(dict(notice.facts)).encode()) == {
        "server": "crm",
        "added": ["\\ud800"],
        "removed": ["b"],
    }


async def test_a_notice_names_ten_and_counts_the_rest() -> None:
    """E5: the names that a notice leaves out are counted, for each kind by itself."""
    names = [f"t{number}" for number in range(12)]
    changed = build().writer.tools_changed("crm", names, names[:10], names[:11])
    assert changed.facts["added"] == [*names[:10], "and 2 more"]
    assert changed.facts["removed"] == names[:10]
    assert changed.facts["changed"] == [*names[:10], "and 1 more"]
    assert changed.text == "The server crm has other tools: 12 added, 10 removed, 11 changed."
    held = build().writer.definition_held("crm", names, "its text differs")
    assert held.facts["held"] == [*names[:10], "and 2 more"]
    assert held.text == "12 definitions of crm wait for an approval: its text differs."
