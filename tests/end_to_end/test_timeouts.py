"""The time limit of a call: named in the result, and told to the upstream."""

import pytest

from tests.end_to_end.scripted_host import MODERN, VERSIONS
from tests.end_to_end.server_harness import (
    FRONTENDS,
    ServerHarness,
    local_entry,
    raw_stdio_entry,
    sdk_stdio_entry,
    write_config,
)
from tests.peers.sdk import http_app, sse_app
from tests.peers.serving import BackgroundLoop, serving

LIMIT = 0.3


@pytest.fixture(scope="module")
def hurried(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ServerHarness:
    """A harness in which `hold` may take 0.3 s and other tools any time."""
    http = f"{background.open(serving(http_app()))}/mcp"
    sse = f"{background.open(serving(sse_app()))}/sse"
    short = {"tools": {"timeout": {"ho*": LIMIT}}}
    servers = {
        "stdio_legacy": sdk_stdio_entry(protocol="legacy", **short),
        "raw_2026": raw_stdio_entry("--version", MODERN, **short),
        "http_modern": {"type": "http", "url": http, **short},
        "http_legacy": {"type": "http", "url": http, "protocol": "legacy", **short},
        "sse": {"type": "sse", "url": sse, **short},
        "local_modern": local_entry(**short),
        "resets": raw_stdio_entry(timeout=LIMIT, limits={"timeout_resets_on_progress": True, "max_timeout": 2 * LIMIT}),
        "holds": raw_stdio_entry(timeout=LIMIT),
    }
    return ServerHarness(background, write_config(tmp_path_factory.mktemp("hurried"), servers))


@pytest.mark.parametrize("upstream", ["stdio_legacy", "raw_2026", "http_modern", "http_legacy", "sse", "local_modern"])
async def test_a_time_out_names_the_limit_and_is_told_upstream(hurried: ServerHarness, upstream: str, key: str) -> None:
    """A8, B4, C9, D7: an `isError` result that says who, how long and whether to try again; the call is cancelled."""
    async with hurried.host("http", MODERN) as host:
        result = await host.call(f"{upstream}.hold", {"key": key}).result()
        await host.call(f"{upstream}.witness", {"entry": f"cancelled {key}"}).result()
    assert result["isError"] is True
    assert upstream in result["content"][0]["text"]
    assert "0.3 s" in result["content"][0]["text"]
    told = result["_meta"]["aggregator/error"]
    assert told["code"] == "upstream_timeout"
    assert told["limit"] == "0.3 s"
    assert told["retryable"] is False
    assert "may have taken effect" in result["content"][0]["text"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_a_time_out_is_a_result_at_every_frontend(
    hurried: ServerHarness, frontend: str, version: str, key: str
) -> None:
    """A7, A8: never a dropped connection: the same host goes on calling."""
    async with hurried.host(frontend, version) as host:
        result = await host.call("local_modern.hold", {"key": key}).result()
        assert result["_meta"]["aggregator/error"]["code"] == "upstream_timeout"
        assert (await host.call("local_modern.echo").result())["content"]


async def test_progress_starts_the_time_anew_up_to_the_hard_maximum(hurried: ServerHarness) -> None:
    """B4: with `timeout_resets_on_progress`; the hard maximum ends it all the same."""
    async with hurried.host("http", MODERN) as host:
        result = await host.call("resets.steps", {"key": "resets", "count": 2}, progressToken=1).result()
        assert result["_meta"]["aggregator/error"]["code"] == "upstream_timeout"
        assert host.inbox.progress(1) == ["resets 1", "resets 2"]


REPORTED = [
    ("resets", "reported progress, and then nothing for 0.3 s"),
    ("holds", "did not answer within its limit of 0.3 s"),
]


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize(("upstream", "said"), REPORTED)
async def test_a_server_is_asked_for_progress_that_no_host_wants(
    hurried: ServerHarness, frontend: str, upstream: str, said: str, key: str
) -> None:
    """B4, C9: progress starts the limit anew, unless it was set without a word about progress; no host hears of it."""
    async with hurried.host(frontend, MODERN if frontend != "sse" else VERSIONS[0]) as host:
        result = await host.call(f"{upstream}.steps", {"key": key, "count": 2}).result()
        assert said in result["content"][0]["text"]
        assert result["_meta"]["aggregator/error"]["code"] == "upstream_timeout"
        assert not [one for one in host.inbox.messages if one.get("method") == "notifications/progress"]
