"""The console in the OpenAPI document of `/v1`: what it says is there, for an API key, as it says."""

from typing import Any

import httpx2
import jsonschema
import pytest_asyncio

from tests.console.console_harness import ConsoleHarness

# Words for what a path may name.
THERE = {"name": "shop", "seq": "1", "id": "apr_nothing"}
TOOLS = "/console/tools/{name}"


async def _document(console: ConsoleHarness, method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the operations of the console with this method by path, and the schema of every failure."""
    async with console.client("clerk") as client:
        found: dict[str, Any] = (await client.get("/v1/openapi.json")).json()
    ours = {path: one for path, one in found["paths"].items() if path.startswith("/console/")}
    failure = {**found["components"]["schemas"]["Failure"], "components": found["components"]}
    return {path: one[method] for path, one in ours.items() if method in one}, failure


def _client(console: ConsoleHarness, key: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=console.url, timeout=20, headers={"authorization": f"Bearer {key}"})


@pytest_asyncio.fixture
async def key(console: ConsoleHarness) -> str:
    """Make a key for everything."""
    return await console.role_key("operator")


async def test_every_page_answers_as_the_document_says(console: ConsoleHarness, key: str) -> None:
    """E13: pages are data, too; whatever has no such thing says so in the form of all failures."""
    pages, failure = await _document(console, "get")
    assert {"/console/overview.json", "/console/calls.json", "/console/approvals.json"} <= pages.keys()
    answered = 0
    async with _client(console, key) as client:
        for path, operation in pages.items():
            name = "shop.get" if path.startswith(TOOLS) else THERE["name"]
            answer = await client.get(path.format_map({**THERE, "name": name}))
            assert str(answer.status_code) in operation["responses"], path
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            jsonschema.validate(answer.json(), schema if answer.status_code == 200 else failure)
            answered += answer.status_code == 200
    assert answered >= 12


async def test_every_action_is_described_and_refused_in_the_form_that_is_said(
    console: ConsoleHarness, key: str
) -> None:
    """E13: a field that cannot be used is named, and nothing fails inside."""
    actions, failure = await _document(console, "post")
    assert "/console/approvals/{id}.json" in actions
    async with _client(console, key) as client:
        for path, operation in actions.items():
            assert operation["requestBody"]["content"]["application/json"]["schema"]["properties"] is not None
            if "/servers/" in path:
                continue  # without fields they act: test_servers
            answer = await client.post(path.format_map(THERE), json={"answer": "perhaps", "text": "a: [", "as": ""})
            assert str(answer.status_code) in operation["responses"], path
            if answer.status_code != 200:
                jsonschema.validate(answer.json(), failure)
