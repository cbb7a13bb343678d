"""Every frontend x every host era x every kind of upstream: what a call carries, there and back."""

import json
from typing import Final

import pytest

from tests.end_to_end.scripted_host import META, MODERN, VERSIONS
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.peers.toolbox import DEFINITIONS, PIXEL, REFUSAL_CODE, REFUSAL_DATA, VENDOR_META, Json, without_provenance

# id -> the revision the aggregator has to end up with.
UPSTREAMS: Final = {
    "stdio_modern": "2026-07-28",
    "stdio_legacy": "2025-11-25",
    "raw_2024": "2024-11-05",
    "raw_2025": "2025-06-18",
    "raw_2026": "2026-07-28",
    "http_modern": "2026-07-28",
    "http_legacy": "2025-11-25",
    "sse": "2025-11-25",
    "local_modern": "2026-07-28",
    "local_legacy": "2025-11-25",
}
SEPARATOR: Final = {"stdio": "__", "sse": ".", "http": "."}

everywhere = pytest.mark.parametrize("frontend", FRONTENDS)
every_era = pytest.mark.parametrize("version", VERSIONS)
every_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)


@every_upstream
def test_the_era_of_an_upstream_is_found_out(harness: ServerHarness, upstream: str) -> None:
    """C1, E1: by probe and fallback, also with one that knows one old revision only and one that dies of the probe."""
    found = harness.app.upstreams[upstream]
    assert found.state == "ready", found.reason
    assert found.negotiated is not None
    assert found.negotiated.version == UPSTREAMS[upstream]


@everywhere
@every_era
async def test_every_definition_is_listed_as_it_came(harness: ServerHarness, frontend: str, version: str) -> None:
    """C5, C6, C17, F2: all tools of all upstreams, each its own JSON but for the name, in the order of the config."""
    async with harness.host(frontend, version) as host:
        listed = await host.list()
    expected = [
        {**tool, "name": f"{upstream}{SEPARATOR[frontend]}{tool['name']}"}
        for upstream in UPSTREAMS
        for tool in DEFINITIONS
    ]
    if frontend == "stdio":
        # A dot cannot be listed there; which name it gets instead is a matter of its own.
        for ours, theirs in zip(expected, listed, strict=True):
            if ours["name"].endswith("deep.nested"):
                ours["name"] = theirs["name"]
    assert listed == expected


@everywhere
@every_era
@every_upstream
async def test_a_call_and_its_result_are_relayed_whole(
    harness: ServerHarness, frontend: str, version: str, upstream: str
) -> None:
    """C8, C10, E6: unknown fields and vendor `_meta` both ways; what belongs to the host's hop stays behind."""
    arguments = {"text": "知识 \u2028 \x7f", "n": 2**60, "nested": [{"a": None}, 1.5, True]}
    vendor = {"com.example/mine": {"x": [1]}, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with harness.host(frontend, version) as host:
        result = await host.call(f"{upstream}.echo", arguments, **vendor, progressToken="the-hosts-own").result()
    assert json.loads(result["content"][0]["text"]) == arguments
    assert result["x-vendor-result"] == "kept"
    received = result["structuredContent"]["received"]
    assert received["name"] == "echo"
    assert received["arguments"] == arguments
    meta = received["_meta"]
    assert meta.pop("progressToken") != "the-hosts-own"
    assert meta.get(f"{META}clientInfo", {}).get("name") != "journey"
    assert {key: value for key, value in meta.items() if not key.startswith(META)} == vendor
    assert {key for key in meta if key.startswith(META)} == (
        {f"{META}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
        if UPSTREAMS[upstream] == MODERN
        else set()
    )
    check_envelope(result, version, VENDOR_META)


def check_envelope(result: Json, version: str, vendor: Json) -> None:
    """The result carries the host's era, and no other hop's identity."""
    meta = dict(without_provenance(result).get("_meta", {}))
    if version == MODERN:
        assert result["resultType"] == "complete"
        assert meta.pop(f"{META}serverInfo")["name"] == "aggregator"
    else:
        assert "resultType" not in result
    assert meta == vendor


@everywhere
@every_era
@every_upstream
async def test_every_kind_of_answer_is_relayed_whole(
    harness: ServerHarness, frontend: str, version: str, upstream: str
) -> None:
    """C10, C12: structured content, images, `isError` results and JSON-RPC errors, with what nobody knows in them."""
    async with harness.host(frontend, version) as host:
        measured = await host.call(f"{upstream}.measure", {"length": 3}).result()
        picture = await host.call(f"{upstream}.picture").result()
        refused = await host.call(f"{upstream}.refuse").result()
        declined = await host.call(f"{upstream}.decline").error()
        crashed = await host.call(f"{upstream}.crash").message()
    assert measured["structuredContent"] == {"metres": 3.0, "unit": "m"}
    assert json.loads(measured["content"][0]["text"]) == measured["structuredContent"]
    assert picture["content"] == [{"type": "image", "data": PIXEL, "mimeType": "image/png", "x-vendor-block": 1}]
    assert refused["isError"] is True
    assert refused["content"] == [{"type": "text", "text": "no"}]
    assert refused["x-vendor-result"] == {"kept": [1, None]}
    check_envelope(refused, version, VENDOR_META)
    assert declined == {"code": REFUSAL_CODE, "message": "The peer declines.", "data": REFUSAL_DATA}
    assert "error" in crashed


@everywhere
@every_era
@every_upstream
async def test_progress_reaches_the_right_caller(
    harness: ServerHarness, frontend: str, version: str, upstream: str, key: str
) -> None:
    """C8: two callers at once, both with progress token 1, each hear of their own call and nothing else."""
    async with harness.host(frontend, version) as one, harness.host(frontend, version) as other:
        keys = {one: f"{key}-one", other: f"{key}-other"}
        calls = {h: h.call(f"{upstream}.steps", {"key": k, "count": 3}, progressToken=1) for h, k in keys.items()}
        for host, own in keys.items():
            reports = await host.inbox.named("notifications/progress", 3)
            assert [r["params"]["progress"] for r in reports] == [1, 2, 3]
            assert {r["params"]["total"] for r in reports} == {3}
            assert not calls[host].done
            await host.call(f"{upstream}.release", {"key": own}).result()
        for host, own in keys.items():
            result = await calls[host].result()
            assert result["content"][0]["text"] == own
            assert host.inbox.progress(1) == [f"{own} {step}" for step in (1, 2, 3)]


@everywhere
@every_era
@every_upstream
async def test_cancelling_arrives_upstream(
    harness: ServerHarness, frontend: str, version: str, upstream: str, key: str
) -> None:
    """A8, C9: in each era's way on both sides; only the call meant is cancelled, and the connection goes on."""
    async with harness.host(frontend, version) as host:
        doomed = host.call(f"{upstream}.hold", {"key": key})
        other = host.call(f"{upstream}.hold", {"key": f"{key}-other"})
        await host.call(f"{upstream}.witness", {"entry": f"started {key}"}).result()
        await host.call(f"{upstream}.witness", {"entry": f"started {key}-other"}).result()
        await host.wire.cancel(doomed)
        await host.call(f"{upstream}.witness", {"entry": f"cancelled {key}"}).result()
        assert not other.done
        await host.call(f"{upstream}.release", {"key": f"{key}-other"}).result()
        assert (await other.result())["content"][0]["text"] == f"{key}-other"
