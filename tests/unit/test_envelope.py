"""The headers of a request of 2026-07-28 against its body."""

from typing import Any, Final

import pytest

from aggregator.domain.errors import HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, HostError
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.frontends.web.header_context import check_envelope
from aggregator.wire.headers import METHOD, NAME, VERSION
from tests.access.gateway_harness import MODERN

CALL: Final = {VERSION: [MODERN], METHOD: ["tools/call"], NAME: ["a.b"]}
ENVELOPE: Final = {META_VERSION: MODERN, META_CLIENT_CAPABILITIES: {}}


def _checked(headers: dict[str, list[str]], meta: Any = ENVELOPE, method: str = "tools/call", **params: Any) -> None:
    check_envelope(method, {"name": "a.b", "_meta": meta, **params}, headers)


@pytest.mark.parametrize(
    ("headers", "meta", "code", "said"),
    [
        ({VERSION: None}, ENVELOPE, HEADER_MISMATCH, VERSION),
        ({METHOD: None}, ENVELOPE, HEADER_MISMATCH, METHOD),
        ({NAME: None}, ENVELOPE, HEADER_MISMATCH, NAME),
        ({VERSION: ["2025-11-25"]}, ENVELOPE, HEADER_MISMATCH, VERSION),
        ({METHOD: ["tools/list"]}, ENVELOPE, HEADER_MISMATCH, METHOD),
        ({NAME: ["a.c"]}, ENVELOPE, HEADER_MISMATCH, NAME),
        ({VERSION: [MODERN] * 2}, ENVELOPE, HEADER_MISMATCH, "more than once"),
        ({METHOD: ["tools/call"] * 2}, ENVELOPE, HEADER_MISMATCH, "more than once"),
        ({NAME: ["a.b"] * 2}, ENVELOPE, HEADER_MISMATCH, "more than once"),
        ({}, None, INVALID_PARAMS, "must carry"),
        ({}, {META_VERSION: MODERN}, INVALID_PARAMS, META_CLIENT_CAPABILITIES),
        ({}, {META_CLIENT_CAPABILITIES: {}}, INVALID_PARAMS, META_VERSION),
        # Without the header the envelope alone tells that the request is modern, whatever the value in it.
        ({VERSION: None}, {**ENVELOPE, META_VERSION: None}, INVALID_PARAMS, "must be a string"),
        ({VERSION: None}, {**ENVELOPE, META_VERSION: 7}, HEADER_MISMATCH, VERSION),
        ({VERSION: ["2999-01-01"]}, {**ENVELOPE, META_VERSION: "2999-01-01"}, None, "2999-01-01"),
    ],
)
def test_what_does_not_fit_is_refused(
    headers: dict[str, list[str] | None], meta: Any, code: int | None, said: str
) -> None:
    """F3: one thing each."""
    _checked(CALL)
    sent = {name: values for name, values in {**CALL, **headers}.items() if values is not None}
    with pytest.raises(HostError) as refused:
        _checked(sent, meta)
    assert said in str(refused.value)
    assert code in (None, refused.value.code)


def test_there_is_no_handshake() -> None:
    with pytest.raises(HostError) as refused:
        _checked({**CALL, METHOD: ["initialize"]}, method="initialize")
    assert refused.value.code == METHOD_NOT_FOUND
