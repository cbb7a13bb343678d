"""Holds every page to the law that what servers, hosts and agents wrote is text, whatever they wrote."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.console.console_harness import ConsoleHarness
from tests.console.hostile import POLICIES, TEXT, calls, servers
from tests.console.page_reader import Fetched, crawl
from tests.end_to_end.scripted_host import MODERN
from tests.peers.serving import BackgroundLoop
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crawled(
    background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[list[Fetched], list[str]]]:
    """Fetch all that an operator comes to by links, after calls of every kind."""
    audit = {"capture": "full", "flush_interval": "10ms", "max_captured_bytes": "1MiB"}
    console = ConsoleHarness(background, tmp_path_factory.mktemp("hostile"), servers(), POLICIES, audit=audit)
    meta = {"aggregator/conversation_id": TEXT, "aggregator/user_id": TEXT, "aggregator/session_id": TEXT}
    async with console.connect_as(("http", MODERN), "clerk") as host:
        for name, arguments in calls():
            await host.ask("tools/call", {"name": name, "arguments": arguments}, meta).message()
    log = console.app.telemetry.audit
    assert log is not None
    await until(lambda: log.report()["waiting"] == 0)
    async with console.signed_in("operator", TEXT) as client:
        yield await crawl(client)


async def test_nothing_of_theirs_becomes_markup(crawled: tuple[list[Fetched], list[str]]) -> None:
    """No element, attribute or address on any page that no template of ours has."""
    fetched, problems = crawled
    assert not problems, "\n".join(problems[:40])
    pages = {one.path.split("/")[2].partition("?")[0] for one in fetched}
    assert {"calls", "approvals", "tools", "servers", "agents", "policies", "health", "events"} <= pages


async def test_every_link_leads_somewhere(crawled: tuple[list[Fetched], list[str]]) -> None:
    fetched, _ = crawled
    dead = [f"{one.status} {one.path} on {one.found_on}" for one in fetched if one.status != 200]
    assert not dead, "\n".join(dead)


async def test_no_page_grows_with_what_they_wrote(crawled: tuple[list[Fetched], list[str]]) -> None:
    """Ten megabytes of a server are not sent to the browser; what was left out is counted."""
    fetched, _ = crawled
    large = [(one.path, len(one.text)) for one in fetched if one.kind.startswith("text/html") and len(one.text) > 2**20]
    assert large == []


async def test_what_cannot_be_seen_is_shown(crawled: tuple[list[Fetched], list[str]]) -> None:
    """Characters that turn or hide text are on no page as they are."""
    fetched, _ = crawled
    pages = [one for one in fetched if one.kind.startswith("text/html")]
    for char in "\u202e\u2066\x1b\x00\ufeff\U000e0041\u2028":
        assert [one.path for one in pages if char in one.text] == [], f"U+{ord(char):04X}"
    assert any("U+202E" in one.text for one in pages)
