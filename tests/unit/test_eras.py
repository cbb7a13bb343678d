"""The envelope of each era: which revision a request speaks, and what answers and onward requests carry."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.errors import INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION, HostError
from aggregator.domain.versions import (
    HOP_LOCAL_META_PREFIX,
    LEGACY_VERSIONS,
    META_CLIENT_CAPABILITIES,
    META_SERVER_INFO,
    META_SUBSCRIPTION_ID,
    META_VERSION,
    MODERN_VERSIONS,
    SUPPORTED_VERSIONS,
    era_of,
)
from aggregator.gateway.eras import SERVER_INFO, for_legacy, for_modern, onward, received, unsupported, version_spoken
from aggregator.gateway.host import Host

from .strategies import ANY_TEXT, json_values

MODERN = MODERN_VERSIONS[-1]
ENVELOPE = {META_VERSION: MODERN, META_CLIENT_CAPABILITIES: {}}

META_KEYS = ANY_TEXT | st.sampled_from(
    [META_SERVER_INFO, META_VERSION, "progressToken", "traceparent", "vendor/x", "aggregator/error"]
)
METAS = st.dictionaries(META_KEYS, json_values(leaves=3), max_size=5)
RESULTS = st.fixed_dictionaries(
    {},
    optional={
        "_meta": METAS | json_values(leaves=2),
        "resultType": st.sampled_from(["complete", "input_required"]),
        "structuredContent": json_values(leaves=3),
        "content": st.just([{"type": "text", "text": "x", "vendor": 1}]),
        "isError": st.booleans(),
        "vendorField": json_values(leaves=3),
    },
)


def _spoken(host_version: str | None, method: str, params: dict[str, Any]) -> str | None:
    return version_spoken(Host("test", "canonical", version=host_version), method, params)


@pytest.mark.parametrize("version", SUPPORTED_VERSIONS)
def test_every_revision_is_of_one_era(version: str) -> None:
    """Proves: F1"""
    assert era_of(version) == ("legacy" if version in LEGACY_VERSIONS else "modern")


@pytest.mark.parametrize(
    ("host_version", "method", "params", "expected"),
    [
        (None, "initialize", {}, None),
        (None, "ping", {}, None),
        (None, "initialize", {"_meta": ENVELOPE}, None),
        ("2025-06-18", "initialize", {"_meta": ENVELOPE}, "2025-06-18"),
        ("2025-06-18", "tools/list", {}, "2025-06-18"),
        ("2025-06-18", "tools/list", {"_meta": None}, "2025-06-18"),
        ("2025-06-18", "tools/list", {"_meta": {"progressToken": 1}}, "2025-06-18"),
        (None, "tools/list", {"_meta": ENVELOPE}, MODERN),
        (None, "server/discover", {"_meta": ENVELOPE}, MODERN),
        ("2025-06-18", "tools/list", {"_meta": ENVELOPE}, MODERN),
    ],
)
def test_the_revision_a_request_speaks(
    host_version: str | None, method: str, params: dict[str, Any], expected: str | None
) -> None:
    """Proves: F1"""
    assert _spoken(host_version, method, params) == expected


@pytest.mark.parametrize(
    ("method", "params", "code", "says"),
    [
        ("tools/list", {}, INVALID_REQUEST, "initialize"),
        ("tools/list", {"_meta": []}, INVALID_REQUEST, "initialize"),
        ("server/discover", {}, INVALID_PARAMS, META_VERSION),
        ("tools/list", {"_meta": {META_VERSION: MODERN}}, INVALID_PARAMS, META_CLIENT_CAPABILITIES),
        ("tools/list", {"_meta": {**ENVELOPE, META_VERSION: 7}}, INVALID_PARAMS, META_VERSION),
        ("tools/list", {"_meta": {**ENVELOPE, META_VERSION: None}}, INVALID_PARAMS, META_VERSION),
        ("tools/list", {"_meta": {**ENVELOPE, META_VERSION: "2025-06-18"}}, UNSUPPORTED_VERSION, "2025-06-18"),
        ("tools/list", {"_meta": {**ENVELOPE, META_VERSION: "3000-01-01"}}, UNSUPPORTED_VERSION, "3000-01-01"),
    ],
)
def test_an_incomplete_envelope_says_what_is_missing(method: str, params: dict[str, Any], code: int, says: str) -> None:
    with pytest.raises(HostError) as caught:
        _spoken(None, method, params)
    assert caught.value.code == code
    assert says in caught.value.message


def test_an_unsupported_revision_is_told_what_is() -> None:
    error = unsupported("1999-01-01")
    assert error.code == UNSUPPORTED_VERSION
    assert error.data == {"supported": [MODERN, *reversed(LEGACY_VERSIONS)], "requested": "1999-01-01"}


@given(RESULTS)
def test_a_modern_answer_keeps_everything_but_this_hops_own(result: dict[str, Any]) -> None:
    """Proves: F1, C8"""
    shaped = for_modern(received(result))
    assert shaped["resultType"] == result.get("resultType", "complete")
    assert shaped["_meta"][META_SERVER_INFO] == SERVER_INFO
    assert {k: v for k, v in shaped["_meta"].items() if k != META_SERVER_INFO} == _kept(result.get("_meta"))
    assert _rest(shaped) == _rest(result)


@given(RESULTS)
def test_a_legacy_answer_has_nothing_only_the_modern_era_knows(result: dict[str, Any]) -> None:
    """Proves: F1, C8"""
    hints = {"ttlMs": 1, "cacheScope": "private"} if "resultType" in result else {}
    shaped = dict(for_legacy(received({**result, **hints})))
    assert not {"resultType", "ttlMs", "cacheScope"} & shaped.keys()
    meta = result.get("_meta")
    if isinstance(meta, dict):
        assert shaped.get("_meta", {}) == _kept(meta)
    assert isinstance(shaped.get("structuredContent", {}), dict)
    without = {k: v for k, v in result.items() if k != "structuredContent" or isinstance(v, dict)}
    assert _rest(shaped) == _rest(without)


def test_what_we_say_of_ourselves_under_a_hop_local_key_reaches_the_host() -> None:
    """A subscription's id is this hop's own; only what an upstream put there is taken out."""
    ours = {"_meta": {META_SUBSCRIPTION_ID: 7}}
    assert for_modern(ours)["_meta"] == {META_SUBSCRIPTION_ID: 7, META_SERVER_INFO: SERVER_INFO}
    assert received(ours) == {}


@given(RESULTS)
def test_an_answer_with_nothing_of_the_hop_is_passed_on_as_the_same_object(result: dict[str, Any]) -> None:
    meta = result.get("_meta")
    if not isinstance(meta, dict) or _kept(meta) == meta:
        assert received(result) is result


@given(METAS)
def test_what_goes_on_to_an_upstream(meta: dict[str, Any]) -> None:
    for trusted in (True, False):
        sent = onward(meta, trusted=trusted)
        stays = {"progressToken"} if trusted else {"progressToken", "baggage"}
        assert sent == {key: value for key, value in _kept(meta).items() if key not in stays}


@pytest.mark.parametrize("meta", [None, [], "x", 7])
def test_meta_that_is_none_goes_nowhere(meta: Any) -> None:
    assert onward(meta, trusted=True) == {}


def test_a_trace_goes_on() -> None:
    meta = {"traceparent": "00-a-b-01", "progressToken": 7, **ENVELOPE}
    assert onward(meta, trusted=False) == {"traceparent": "00-a-b-01"}
    assert META_VERSION in meta, "the host's own object was changed"


def _kept(meta: Any) -> dict[str, Any]:
    ours = (HOP_LOCAL_META_PREFIX, "aggregator/")
    return {k: v for k, v in meta.items() if not k.startswith(ours)} if isinstance(meta, dict) else {}


def _rest(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in ("_meta", "resultType")}
