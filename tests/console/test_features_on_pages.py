"""Holds every page to every feature that it can name: what is held, away, limited or labelled is nowhere a hole.

A page or a feature that is added has to say here what it shows of the others.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

import httpx2
import pytest
import pytest_asyncio

from aggregator.app.console import console_parts
from aggregator.frontends.console.pages.every_page import all_pages
from aggregator.redaction.redactor import Redactor
from tests.authorization.authorization_server import authorization_server
from tests.authorization.protected_mcp_server import protected_mcp_server
from tests.console.every_feature import EveryFeature
from tests.console.page_reader import crawl, words
from tests.peers.serving import BackgroundLoop

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Pages that name no tool, item, server or call; what a call under way is named by has no state of its own yet.
_ALWAYS: Final = ("/calls/running/{id}", "/health", "/policies/diff", "/policies/files/{name}", "/agents")
_PLAIN: Final = (*_ALWAYS, "/reports")
_OF_A_CALL: Final = ("/calls", "/calls/{seq}")
_OF_PINS: Final = ("/pins", "/pins/{name}", "/pins/{name}/item")
_OF_QUESTIONS: Final = ("/approvals", "/approvals/{id}")
_OF_TOOLS: Final = ("/tools", "/tools/{name:path}", "/tools/{name:path}/versions")
_OF_SERVERS: Final = ("/servers", "/servers/{name}")

# Of each feature: by the route of a page an address of it and the words that stand there, `{}` for the number of a call
# or the id of a question; and the pages that name nothing it is about.
_CHANGED: Final = "its description changed"
_APPROVE: Final = "Approve what it says now"
SAID: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "a tool that changed": {
        "/": ("/", "shop 2 tools, 1 prompt and 1 skill held: changed since approved"),
        "/tools": ("/tools", f"shop.order held {_CHANGED}"),
        "/tools/{name:path}": ("/tools/shop.order?as=clerk", f"called: {_CHANGED}", _APPROVE, "password"),
        "/tools/{name:path}/versions": ("/tools/shop.order/versions", f"held {_CHANGED}"),
        "/servers": ("/servers", "4 definitions held"),
        "/servers/{name}": ("/servers/shop", f"tool order {_CHANGED}"),
        "/pins": ("/pins", "shop held 4"),
        "/pins/{name}": ("/pins/shop", "tool order held", _CHANGED, "Approve all 5"),
        "/pins/{name}/item": ("/pins/shop/item?kind=tool&item=order", f"called: {_CHANGED}", _APPROVE),
        "/agents/{name}": ("/agents/clerk", "Held shop.order"),
        "/policies": ("/policies?agent=clerk&tool=shop.order", f"may not call shop.order now: it is held: {_CHANGED}"),
        "/calls": ("/calls?q=code:tool_held", "shop.order shop.order is held"),
        "/calls/{seq}": ("/calls/{shop.order tool_held}", "shop.order , definition", f"held {_CHANGED}"),
        "/approvals": ("/approvals", "shop.invoice held"),
        "/approvals/{id}": ("/approvals/{shop.invoice}", f"The tool is held {_CHANGED}"),
        "/events": ("/events?kind=pins", "tool 'order' is held"),
    },
    "a tool that was not approved yet": {
        "/": ("/", "wild 3 tools held: not approved yet"),
        "/tools": ("/tools?q=order", "wild.order held it was not approved yet"),
        "/tools/{name:path}": ("/tools/wild.order", "Not approved yet", "it was not approved yet", _APPROVE),
        "/tools/{name:path}/versions": ("/tools/wild.order/versions", "held it was not approved yet"),
        "/servers": ("/servers", "3 definitions held"),
        "/servers/{name}": ("/servers/wild", "tool order it was not approved yet"),
        "/pins": ("/pins", "wild held 3"),
        "/pins/{name}": ("/pins/wild", "tool order held new"),
        "/pins/{name}/item": ("/pins/wild/item?kind=tool&item=order", "called: it was not approved yet"),
        "/agents/{name}": ("/agents/clerk", "wild.order"),
        "/policies": ("/policies?agent=clerk&tool=wild.order", "wild.order now: it is held: it was not approved yet"),
        "/events": ("/events?kind=pins", "wild: tool 'order' is held"),
    },
    "a prompt that changed": {
        "/": ("/", "1 prompt and 1 skill held"),
        "/servers": ("/servers", "4 definitions held"),
        "/servers/{name}": ("/servers/shop", f"prompt greet {_CHANGED}"),
        "/pins": ("/pins", "shop held 4"),
        "/pins/{name}": ("/pins/shop", "prompt greet held"),
        "/pins/{name}/item": ("/pins/shop/item?kind=prompt&item=greet", f"Not shown to agents: {_CHANGED}"),
        "/policies": ("/policies?agent=clerk&tool=prompt:shop.greet", f"now: it is held: {_CHANGED}"),
        "/calls": ("/calls?q=greet", "greet"),
        "/calls/{seq}": ("/calls/{prompts/get item_held}", "item_held", "held: since it was approved on"),
        "/agents/{name}": ("/agents/clerk", "prompts/get"),
        "/events": ("/events?kind=pins", "prompt 'greet' is held"),
    },
    "a template that changed": {
        "/": ("/", "1 template served as approved: newer definitions wait"),
        "/servers": ("/servers", "1 newer definition waiting"),
        "/servers/{name}": ("/servers/shop", "1 newer definition waiting"),
        "/pins": ("/pins", "shop held 4"),
        "/pins/{name}": ("/pins/shop", "template goods://{id} waits, served as approved"),
        "/pins/{name}/item": (
            "/pins/shop/item?kind=template&item=goods%3A//%7Bid%7D", "waits, served as", "What was approved is",
        ),
        "/events": ("/events?kind=pins", "template 'goods://{id}' changed and waits"),
    },
    "a skill that changed": {
        "/": ("/", "1 skill held"),
        "/servers": ("/servers", "4 definitions held"),
        "/servers/{name}": ("/servers/shop", "skill skill://refunds/SKILL.md its description changed"),
        "/pins": ("/pins", "shop held 4"),
        "/pins/{name}": ("/pins/shop", "skill skill://refunds/SKILL.md held"),
        "/pins/{name}/item": ("/pins/shop/item?kind=skill&item=skill%3A//refunds/SKILL.md", "Not shown to agents"),
        "/policies": ("/policies?agent=clerk&tool=skill:shop.refunds", "may not read skill:shop.refunds now"),
        "/events": ("/events?kind=pins", "skill 'skill://refunds/SKILL.md' is held"),
    },
    "a server that is switched off": {
        "/": ("/", "off disabled"),
        "/tools": ("/tools", "cannot be found now:", "off (disabled)"),
        "/tools/{name:path}": ("/tools/off.get", "off is disabled: an operator switched it off", "The server off"),
        "/servers": ("/servers", "off disabled"),
        "/servers/{name}": ("/servers/off", "maria switched it off at", "Enable"),
        "/policies": ("/policies?agent=clerk&tool=off.get", "The server off is disabled"),
        "/events": ("/events?kind=console", "off was switched off until the next start by maria"),
    },
    "an account that is missing": {
        "/": ("/", "bank unavailable", "login required"),
        "/tools": ("/tools", "cannot be found now:", "bank (unavailable)"),
        "/tools/{name:path}": ("/tools/bank.pay", "login required", "Connections"),
        "/servers": ("/servers", "login required"),
        "/servers/{name}": ("/servers/bank", "an account is missing"),
        "/policies": ("/policies?agent=clerk&tool=bank.pay", "The server bank is unavailable"),
        "/connections": ("/connections", "Not connected", "bank"),
        "/events": ("/events?kind=upstream_state", "bank is unavailable: login required"),
    },
    "a flow rule": {
        "/": ("/", "flow: after untrusted, calls outward"),
        "/agents/{name}": ("/agents/clerk", "What it has read", "untrusted mart.get"),
        "/policies": ("/policies?agent=clerk&tool=mart.put&after=mart.get", "mart.get was read a moment ago"),
        "/calls": ("/calls?q=code:flow_denied", "flow: after untrusted, calls outward"),
        "/calls/{seq}": ("/calls/{mart.put flow_denied}", "Had read untrusted", "flow_denied"),
    },
    "flow labels that are not known": {
        "/agents/{name}": ("/agents/clerk", "it is not known what was read"),
        "/calls": ("/calls?q=code:flow_unknown", "it is not known what was read"),
        "/calls/{seq}": ("/calls/{mart.put flow_unknown}", "flow_unknown"),
    },
    "a limit": {
        "/": ("/", "Limits reached", "per_minute: 2"),
        "/agents/{name}": ("/agents/clerk", "at most 2 such calls a minute"),
        "/policies": ("/policies?agent=clerk&tool=mart.get", "0 of 2 left"),
        "/calls": ("/calls?q=code:limit_reached", "per_minute: 2"),
        "/calls/{seq}": ("/calls/{mart.get limit_reached}", "limit_reached", "per_minute: 2"),
    },
    "a result of which a part is shown": {
        "/policies": ("/policies?agent=clerk&tool=mart.get", "result_bytes: 2000"),
        "/calls/{seq}": ("/calls/{mart.get}", "tokens shown"),
    },
    "code mode": {
        "/tools/{name:path}": ("/tools/run_code", "A tool of the aggregator itself"),
        "/agents/{name}": ("/agents/clerk", "expose code"),
        "/policies": ("/policies?agent=clerk&tool=run_code", "run_code is a tool of the aggregator itself"),
        "/calls": ("/calls?q=via:run_code", "mart.put"),
        "/calls/{seq}": ("/calls/{mart.put flow_denied run_code}", "by run_code"),
    },
    "a call that waits for a person": {
        "/": ("/", "mart.wipe clerk , waits"),
        "/agents/{name}": ("/agents/clerk", "pending mart.wipe"),
        "/policies": ("/policies?agent=clerk&tool=mart.wipe", "confirm"),
        "/calls": ("/calls?q=status:pending", "mart.wipe waits for a person"),
        "/calls/{seq}": ("/calls/{mart.wipe approval_pending}", "waits for a person · answer"),
        "/approvals": ("/approvals", "mart.wipe"),
        "/approvals/{id}": ("/approvals/{mart.wipe}", "clerk wants to call mart.wipe"),
        "/events": ("/events?kind=approval", "mart.wipe by clerk waits for a person"),
        "/tools/{name:path}": ("/tools/mart.wipe", "once a person agreed"),
    },
    "a tool that was reported": {
        "/": ("/", "mart.put"),
        "/reports": ("/reports", "mart.put", "It orders twice."),
        "/tools/{name:path}": ("/tools/mart.put", "It orders twice."),
        "/calls": ("/calls?q=report_tool", "report_tool"),
        "/calls/{seq}": ("/calls/{report_tool}", "mart.put"),
    },
}  # fmt: skip
_ITEM: Final = (*_PLAIN, *_OF_TOOLS, *_OF_QUESTIONS, "/connections")
SILENT: Final[Mapping[str, tuple[str, ...]]] = {
    "a tool that changed": (*_PLAIN, "/connections"),
    "a tool that was not approved yet": (*_PLAIN, *_OF_A_CALL, *_OF_QUESTIONS, "/connections"),
    "a prompt that changed": _ITEM,
    "a template that changed": (*_ITEM, *_OF_A_CALL, "/agents/{name}", "/policies"),
    "a skill that changed": (*_ITEM, *_OF_A_CALL, "/agents/{name}"),
    "a server that is switched off": (
        *_PLAIN, *_OF_A_CALL, *_OF_QUESTIONS, *_OF_PINS, "/connections", "/agents/{name}",
        "/tools/{name:path}/versions",
    ),
    "an account that is missing": (
        *_PLAIN, *_OF_A_CALL, *_OF_QUESTIONS, *_OF_PINS, "/agents/{name}", "/tools/{name:path}/versions",
    ),
    "a flow rule": (*_PLAIN, *_OF_TOOLS, *_OF_SERVERS, *_OF_PINS, *_OF_QUESTIONS, "/connections", "/events"),
    "flow labels that are not known": (
        *_PLAIN, *_OF_TOOLS, *_OF_SERVERS, *_OF_PINS, *_OF_QUESTIONS, "/connections", "/events", "/", "/policies",
    ),
    "a limit": (*_PLAIN, *_OF_TOOLS, *_OF_SERVERS, *_OF_PINS, *_OF_QUESTIONS, "/connections", "/events"),
    "a result of which a part is shown": (
        *_PLAIN, *_OF_TOOLS, *_OF_SERVERS, *_OF_PINS, *_OF_QUESTIONS, "/connections", "/events", "/", "/calls",
        "/agents/{name}",
    ),
    "code mode": (
        *_PLAIN, *_OF_SERVERS, *_OF_PINS, *_OF_QUESTIONS, "/connections", "/events", "/", "/tools",
        "/tools/{name:path}/versions",
    ),
    "a call that waits for a person": (
        *_PLAIN, *_OF_SERVERS, *_OF_PINS, "/connections", "/tools", "/tools/{name:path}/versions",
    ),
    "a tool that was reported": (
        *_ALWAYS, *_OF_SERVERS, *_OF_PINS, *_OF_QUESTIONS, "/connections", "/agents/{name}", "/policies", "/events",
        "/tools", "/tools/{name:path}/versions",
    ),
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def company(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EveryFeature]:
    """Run the company until every feature was needed once."""
    async with authorization_server() as idp, protected_mcp_server(idp) as bank:
        # It connects to the bank, which this loop serves.
        folder = tmp_path_factory.mktemp("company")
        made = await asyncio.to_thread(EveryFeature, background, folder, bank.url)
        await made.happen()
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(company: EveryFeature) -> AsyncIterator[httpx2.AsyncClient]:
    async with company.console.signed_in("operator") as client:
        yield client


def pages(company: EveryFeature) -> set[str]:
    """Return the routes of all pages, but for the stream."""
    found = [route for page in all_pages(console_parts(company.console.app, Redactor())) for route in page.routes()]
    return {route.path for route in found if route.method == "GET" and not route.stream}


@pytest.mark.parametrize("feature", list(SAID))
async def test_a_feature_is_on_every_page_that_can_name_it(
    company: EveryFeature, operator: httpx2.AsyncClient, feature: str
) -> None:
    assert feature in SILENT
    for route, (address, *said) in SAID[feature].items():
        answer = await operator.get(f"/console{company.address(address)}")
        assert answer.status_code < 500, (route, address)
        text = words(answer.text)
        for one in said:
            assert one in text, f"{feature}: {one!r} is not on {address}: {text}"


async def test_no_page_and_no_feature_is_left_out(company: EveryFeature) -> None:
    for feature, said in SAID.items():
        told, silent = set(said), set(SILENT[feature])
        assert not told & silent, feature
        assert told | silent == pages(company), feature


async def test_no_link_of_the_company_ends_in_nothing(company: EveryFeature, operator: httpx2.AsyncClient) -> None:
    """E13: A held tool is a page, and so is the way to it from every list, figure and call."""
    fetched, problems = await crawl(operator, "/console/", each=12)
    assert not problems, "\n".join(problems[:20])
    dead = [f"{one.status} {one.path} on {one.found_on}" for one in fetched if one.status != 200]
    assert not dead, "\n".join(dead)
    assert any(one.path.startswith("/console/tools/shop.order") for one in fetched)
