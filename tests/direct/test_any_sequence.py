"""Any sequence of calls on one connection is answered as in the pipeline, and leaves the same records."""

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.domain.call_record import CallRecord
from aggregator.domain.trace_context import as_caller
from tests.direct.direct_harness import (
    DIRECT,
    HOST_KINDS,
    PIPELINE,
    CallingHost,
    DirectHarness,
    HostAnswer,
    ask,
    child,
    direct_harness,
)
from tests.end_to_end.scripted_host import META
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

_VALUES: Final = [1, True, 1.0, 0, False, -0.0, "1", None, "", [1], [True], {"a": 1}, {"a": True}, 2**70]
_PARENT: Final = f"00-{'a' * 32}-{'b' * 16}-0"
_ABLE: Final = [{}, {"elicitation": {}}, {"elicitation": None}, {"sampling": {"tools": {}}}, {"roots": True}, None, [1]]
_META: Final[dict[str, list[Any]]] = {
    "com.example/a": _VALUES,
    "progressToken": [1, "t", True, None, [1], 1.5],
    "ProgressToken": [1],
    "traceparent": [f"{_PARENT}1", f"{_PARENT}0", "nonsense", None, 7],
    "tracestate": ["a=1", "=", None],
    "baggage": ["a=1"],
    "aggregator/conversation_id": ["one", "", 7, None, "x" * 100],
    "aggregator/user_id": ["u", "", 7],
    "aggregator/session_id": ["s", ""],
    "aggregator/b": [1],
    f"{META}logLevel": ["debug", "error", "loud", None],
    f"{META}clientInfo": [{"name": "t", "version": "1"}, {"name": "claude"}, 7, None],
    f"{META}clientCapabilities": _ABLE,
    f"{META}protocolVersion": ["2026-07-28", "2025-11-25", 7],
    f"{META}vendor": [1],
}
_MORE: Final[dict[str, list[Any]]] = {
    "task": [{}, None],
    "requestState": ["s", "", None, 7],
    "inputResponses": [{}, {"a": {"action": "accept"}}, None],
    "Arguments": [{}],
    "argument": [{}],
    "nAme": ["old.any"],
    "x-vendor": [1, None],
}
_NAMES: Final = [
    *["old.any", "old.any", "new.any", "new.any", "old.number", "new.typed", "new.app", "old.headed"],
    *["old__any", "old/any", "any", "OLD.any", "old.any ", "nobody.any", "search_tools"],
    *["call_tool", "", None, 7, ["a"]],
]
_ARGUMENTS: Final = [
    *[{}, {"n": 1}, {"n": 1}, {"n": True}, {"n": 1.0}, {"n": 1.5}, {"n": "1"}, {"N": 1}, {"n": 2**70}],
    *[{"place": "x"}, {"query": "any"}, {"name": "old.any", "arguments": {"n": 1}}, {"a": {"b": [None]}}],
    *[[1], None, "x"],
]  # fmt: skip
# What is in the arguments of `call_tool` and `read_tool`.
_INNER_NAMES: Final = [
    *["old.any", "old.any", "new.any", "new.any", "old.number", "new.typed", "new.app", "old.headed", "new.reading"],
    *["old__any", "any", "OLD.any", "old.any ", "`old.any`", "mcp__aggregator__old__any", "nobody.any", "old"],
    *["call_tool", "search_tools", "run_code", "mcp__aggregator__call_tool", "skill:any", "skill:", "", None, 7, ["a"]],
]
_INNER_ARGUMENTS: Final = [*_ARGUMENTS, None, "{}", '{"n": 1}', "```json\n{}\n```", []]
_INNER_MORE: Final[dict[str, list[Any]]] = {
    **{name: ["old", "old.any", {"n": 1}, None] for name in ("server", "tool", "function", "parameters", "args", "n")},
    **{"Arguments": [{}], "NAME": ["old.any"], "_meta": [{}]},
}
_IDS: Final = [7, 7, 7, "7", "", 0, -1, 2**70, True, None, 1.5, [1]]
_HEADERS: Final = [
    *[{}, {}, {}, {"traceparent": f"{_PARENT}1"}, {"traceparent": "x"}, {"baggage": "a=1"}, {"x_user_id": "u"}],
    *[{"x_conversation_id": "c"}, {"x_session_id": "s"}, {"mcp_param_place": "x"}, {"mcp_name": "old.number"}],
    *[{"accept": "text/html"}, {"content_type": "text/plain"}, {"mcp_method": "tools/list"}, {"x_other": "1"}],
]  # fmt: skip


def _member(members: dict[str, list[Any]]) -> st.SearchStrategy[Json]:
    pairs = [(name, value) for name in members for value in members[name]]
    return st.sampled_from(pairs).map(lambda pair: {pair[0]: pair[1]})


_PLAIN: Final = st.fixed_dictionaries(
    {"name": st.sampled_from(_NAMES[:4]), "arguments": st.just({"n": 1})},
    optional={"_meta": _member(_META) | st.just({})},
)
_CHANGES: Final[st.SearchStrategy[Json]] = st.one_of(
    st.just({}),
    st.just({}),
    _member({"name": _NAMES, "arguments": _ARGUMENTS, "_meta": [None, [1], {}, "x"]}),
    _member(_MORE),
    _member(_META).map(lambda member: {"_meta": member}),
)
_INNER: Final[st.SearchStrategy[Json]] = st.fixed_dictionaries(
    {"name": st.sampled_from(_INNER_NAMES)},
    optional={"arguments": st.sampled_from(_INNER_ARGUMENTS)},
)
_THROUGH: Final[st.SearchStrategy[Json]] = st.builds(
    lambda outer, inner, more: {"name": outer, "arguments": {**inner, **more}},
    st.sampled_from(["call_tool", "call_tool", "read_tool"]),
    _INNER,
    st.just({}) | st.just({}) | _member(_INNER_MORE),
)
_REST: Final[st.SearchStrategy[tuple[Any, dict[str, str]]]] = st.tuples(st.sampled_from(_IDS), st.just({})) | st.tuples(
    st.just(7), st.sampled_from(_HEADERS)
)


@st.composite
def _calls(draw: st.DrawFn) -> list[tuple[Json, Any, dict[str, str]]]:
    """Params, id and headers of calls that differ in little from the first of them."""
    first = draw(_PLAIN)
    if draw(st.booleans()):
        inner = {name: first[name] for name in ("name", "arguments")}
        first = {**first, "name": "call_tool", "arguments": inner}
    changes = draw(st.lists(st.tuples(_CHANGES | _THROUGH, _REST), min_size=1, max_size=5))
    found = [(first, 7, {}), *(({**first, **change}, *rest) for change, rest in changes)]
    # A name that is missing.
    return [({k: v for k, v in params.items() if (k, v) != ("name", None)}, *rest) for params, *rest in found]


async def _once(
    it: DirectHarness, host: CallingHost, params: Json, request_id: Any, headers: dict[str, str], *, on: bool
) -> tuple[HostAnswer, list[CallRecord]]:
    it.on = on
    return await it.outcome(lambda: ask(host, params, request_id, **headers))


@pytest.mark.parametrize("traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
def test_any_sequence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str], traced: bool) -> None:
    """A3, C8: what came before on a connection changes nothing."""
    ways: set[tuple[Any, str]] = set()
    servers = {"old": child("legacy"), "new": child("modern", trusted=True)}
    with BackgroundLoop() as background:
        it = background.open(direct_harness(tmp_path, monkeypatch, servers, read_tool=True), leans=True)
        if traced:
            it.app.telemetry.observers.start_tracing(as_caller)
        session = background.run(it.open_session(kind[1])) if kind == HOST_KINDS[2] else None
        usual, direct = (background.open(it.host(*kind, session=session), leans=True) for _ in range(2))

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(_calls())
        def check(calls: list[tuple[Json, Any, dict[str, str]]]) -> None:
            for call in calls:
                expected = background.run(_once(it, usual, *call, on=False))
                before = len(it.ways)
                assert background.run(_once(it, direct, *call, on=True)) == expected
                ways.update((str(call[0].get("name")), way) for way in it.ways[before:])

        check()
        background.run(it.quiet())
    assert {PIPELINE, DIRECT} <= {way for _, way in ways}
    assert {("call_tool", DIRECT), ("call_tool", PIPELINE)} <= ways
