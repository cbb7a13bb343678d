"""Requests that repeat the header fields of the one before on their connection: every check holds for each of them."""

import copy
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from aggregator.domain.principal import Principal
from aggregator.frontends.web.header_context import headers_of
from aggregator.frontends.web.host_guard import Scope
from aggregator.frontends.web.repeated_fields import MEMORY, FieldMemory
from aggregator.gateway import access
from aggregator.identity.identify import RequestFacts
from aggregator.identity.keyring import COARSE
from aggregator.identity.keys import hashed, new_key, parse_key
from aggregator.identity.source import ClientSource
from tests.bounds.web_harness import MODERN, RawConnection, WebHarness, call, web_harness


async def status(connection: RawConnection, path: str = "/mcp", pad: str = "", **fields: str) -> int:
    """The status of one call."""
    return (await connection.ask(path, call(pad=pad), **MODERN, **fields)).status


async def test_what_changes_on_a_connection_is_seen_at_once(tmp_path: Path) -> None:
    """D4: another key, path, query, host, page or proxy is judged anew, and does not stay for the next request."""
    async with web_harness(tmp_path, agents=["one", "two"]) as it, it.connect() as connection:
        one, two = it.key("one"), it.key("two")
        changes = [
            (401, "/mcp", {}),
            (401, "/mcp", {"x_api_key": one["x_api_key"][:-1] + "x"}),
            (400, "/mcp", {**one, "authorization": f"Bearer {two['x_api_key']}"}),
            (403, "/mcp/two", one),
            (403, "/mcp/one", two),
            (400, "/mcp?api_key=1", one),
            (421, "/mcp", {**one, "host": "elsewhere.example"}),
            (403, "/mcp", {**one, "origin": "https://elsewhere.example"}),
            (200, "/mcp/one", one),
            (200, "/mcp", {**one, "x_forwarded_for": "192.0.2.1"}),
        ]
        for expected, path, fields in changes:
            assert await status(connection, **one) == 200
            assert await status(connection, pad="x" * 200, **one) == 200
            assert await status(connection, path, **fields) == expected, (path, fields)


async def test_a_page_under_any_name_lets_nobody_in(tmp_path: Path) -> None:
    """D4: health pages are served under every name; the next request under that name is not."""
    async with web_harness(tmp_path) as it, it.connect() as connection:
        for _ in range(2):
            connection.send(b"GET /healthz HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n")
            assert (await connection.answer()).status == 200
        connection.send(b"GET /mcp HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n")
        assert (await connection.answer()).status == 421


async def test_without_a_key_a_proxy_is_refused_at_once(tmp_path: Path) -> None:
    """D4: what is remembered of a local request is no use to one that a proxy passed on."""
    async with web_harness(tmp_path) as it, it.connect() as connection:
        for fields, expected in [({}, 200), ({"via": "1.1 proxy"}, 403), ({}, 200), ({}, 200)]:
            assert await status(connection, **fields) == expected
        it.app.access.keyring.use_policy_keys([new_key("one", now=0.0).record])
        assert await status(connection) == 401
        it.app.access.keyring.use_policy_keys([])
        it.app.access.locked = "Keys may have been lost."
        assert await status(connection) == 401


async def _known(it: WebHarness, connection: RawConnection) -> None:
    for _ in range(2):
        assert await status(connection, **it.key("one")) == 200


async def test_a_key_that_ends_is_refused_with_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4: revoked, expired, made anew under the same id, gone or given to another agent."""
    async with web_harness(tmp_path, agents=["one", "two"]) as it, it.connect() as connection:
        keyring, key = it.app.access.keyring, parse_key(it.keys["one"])
        assert key is not None
        good = new_key("one", now=0.0).record
        good = replace(good, key_id=key.key_id, hash=hashed(key))
        for ended in (
            [replace(good, revoked=1.0)],
            [replace(good, expires=1.0)],
            [replace(good, hash=hashed(replace(key, secret="other")))],
            [],
        ):
            keyring.use_policy_keys([good])
            await _known(it, connection)
            keyring.use_policy_keys(ended)
            assert await status(connection, **it.key("one")) == 401
        keyring.use_policy_keys([replace(good, expires=time.time() + 3600)])
        await _known(it, connection)
        monkeypatch.setattr(access, "time", SimpleNamespace(time=lambda: time.time() + 3601))
        assert await status(connection, **it.key("one")) == 401


async def test_a_repeated_key_counts_as_used(tmp_path: Path) -> None:
    """D4: the time of the last use is that of the last request, not of the first one of a connection."""
    async with web_harness(tmp_path, agents=["one"]) as it, it.connect() as connection:
        await _known(it, connection)
        it.app.access.keyring._seen.clear()
        assert await status(connection, **it.key("one")) == 200
        assert [used % COARSE for used in it.app.access.keyring._seen.values()] == [0.0]


def test_only_the_length_may_differ() -> None:
    """D4: the fields of the request itself are seen, whatever the one before had."""

    def scope(version: str = "1.1", **fields: str) -> Scope:
        lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
        return {"headers": lines, "http_version": version, MEMORY: memory}

    memory = FieldMemory()
    assert not memory.is_repeated(scope())
    first = scope(host="a", content_length="10", accept="*/*")
    memory.keep(first, dict(first["headers"]), ClientSource())
    assert headers_of(first)["content-length"] == ["10"]
    longer = scope(host="a", content_length="2000", accept="*/*")
    assert memory.is_repeated(longer)
    assert memory.fields == dict(longer["headers"])
    assert headers_of(longer) == {"host": ["a"], "content-length": ["2000"], "accept": ["*/*"]}
    assert headers_of(first)["content-length"] == ["10"]
    for other in (
        scope(host="b", content_length="10", accept="*/*"),
        scope(host="a", content_length="10", accept="text/plain"),
        scope(host="a", content_length="10"),
        scope(host="a", transfer_encoding="chunked", accept="*/*"),
        scope(host="a", content_length="10", accept="*/*", via="1.1 proxy"),
        scope("1.0", host="a", content_length="10", accept="*/*"),
        scope(),
    ):
        assert not memory.is_repeated(other)


async def test_other_policies_are_looked_at_anew(tmp_path: Path) -> None:
    """D4: tenant and roles are those of the rulebook in force."""
    async with web_harness(tmp_path, agents=["one"]) as it:
        own, live = it.app.access, it.app.access._views._live
        assert live is not None
        principal = own.authenticate(RequestFacts("http", api_key=(it.keys["one"],)))
        assert isinstance(principal, Principal)
        before = own.authentication(principal)
        assert own.repeated(before) is principal
        live.rulebook = copy.copy(live.rulebook)
        assert own.repeated(before) is None
        assert own.repeated(own.authentication(principal)) is principal
