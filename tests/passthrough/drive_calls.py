"""Drives for the course of a call: requests to the host, log messages, headers, the trace."""

from typing import Any, Final

from tests.end_to_end.scripted_host import META, HttpWire
from tests.passthrough.drives import FeatureCase, drive, drive_in_turn, drive_with_answers, instead
from tests.passthrough.everything import ASKED, LARGE, LINES, QUESTIONS
from tests.passthrough.upstreams import subscribed_to
from tests.peers.toolbox import Json
from tests.polling import until
from tests.server_requests.entries import ANSWERS
from tests.server_requests.replies import ask_and_answer, asked, is_question, reply, resume

_ANSWERS: Final[dict[str, Json]] = {
    "form": {"action": "accept", "content": {"answer": "知识"}},
    "page": {"action": "accept"},
    "sampling": ANSWERS["sample"],
    "roots": ANSWERS["roots"],
}
_TRACE: Final = "0af7651916cd43dd8448eb211c80319c"


# -- questions


async def _asks(case: FeatureCase, what: str) -> None:
    """The question is the server's own but for the name of who asks; the answer is the host's; the call is run once."""
    params = {"name": f"{case.upstream}.ask", "arguments": {"what": what}}
    result, questions = await ask_and_answer(case.host, "tools/call", params, [[_ANSWERS[what]]])
    assert result["structuredContent"]["answer"] == _ANSWERS[what]
    assert [question["method"] for question in questions] == [QUESTIONS[what]["method"]]
    message = QUESTIONS[what]["params"].get("message")
    if message is not None:
        assert questions[0]["params"]["message"] == f"[{case.upstream}] {message}"
    assert questions[0]["params"]["_meta"]["aggregator/server"] == case.upstream


@drive_with_answers
async def ask_form(case: FeatureCase) -> None:
    await _asks(case, "form")


@drive_with_answers
async def ask_page(case: FeatureCase) -> None:
    await _asks(case, "page")


@drive_with_answers
async def ask_sampling(case: FeatureCase) -> None:
    await _asks(case, "sampling")


@drive_with_answers
async def ask_roots(case: FeatureCase) -> None:
    await _asks(case, "roots")


@drive_with_answers
async def ask_together(case: FeatureCase) -> None:
    """A host of 2026-07-28 gets them together."""
    answers = {QUESTIONS[what]["method"]: _ANSWERS[what] for what in ("form", "roots")}
    params = {"name": f"{case.upstream}.ask_both"}
    if case.host.modern:
        interim = await case.host.ask("tools/call", params).result()
        replies = {key: answers[one["method"]] for key, one in interim["inputRequests"].items()}
        assert len(replies) == len(answers)
        result = await resume(case.host, "tools/call", params, interim, replies).result()
    else:
        before = sum(map(is_question, case.host.inbox.messages))
        call = case.host.ask("tools/call", params)
        for number, _ in enumerate(answers, before + 1):
            question = await asked(case.host, number)
            await reply(case.host, question, answers[question["method"]])
        result = await call.result()
    assert result["structuredContent"] == {what: _ANSWERS[what] for what in ("form", "roots")}


@drive_with_answers
async def ask_in_prompt(case: FeatureCase) -> None:
    params = {"name": f"{case.upstream}.ask"}
    result, (question,) = await ask_and_answer(case.host, "prompts/get", params, [[_ANSWERS["form"]]])
    assert result["messages"][0]["content"]["text"] == "accept"
    assert question["params"]["message"].startswith(f"[{case.upstream}] ")


@drive_with_answers
async def ask_in_read(case: FeatureCase) -> None:
    uri = ASKED.replace("://", f"://{case.upstream}/")
    result, (question,) = await ask_and_answer(case.host, "resources/read", {"uri": uri}, [[_ANSWERS["form"]]])
    assert result["contents"] == [{"uri": uri, "text": "accept"}]
    assert question["params"]["message"].startswith(f"[{case.upstream}] ")


@drive_in_turn
async def ask_unable(case: FeatureCase) -> None:
    before = len(case.host.inbox.messages)
    message = await case.call("ask", what="form").message()
    assert case.host.inbox.messages[before:] == []
    failed = message["error"] if "error" in message else message["result"]["_meta"]["aggregator/error"]
    assert failed["code"] != "upstream_timeout"


@drive_with_answers
async def page_required(case: FeatureCase) -> None:
    params: Json = {"name": f"{case.upstream}.page", "arguments": {"key": case.key}}
    if case.host.modern:
        interim = await case.host.ask("tools/call", params).result()
        (question,) = interim["inputRequests"].values()
        assert (question["params"]["mode"], question["params"]["url"]) == ("url", "https://example.com/in?a=1")
        await case.did("visited", key=case.key)
        result = await resume(case.host, "tools/call", params, interim, [_ANSWERS["page"]]).result()
    else:
        error = await case.host.ask("tools/call", params).error()
        assert error["code"] == -32042
        assert error["data"]["elicitations"][0]["elicitationId"] == f"{case.upstream}:page-{case.key}"
        await case.did("visited", key=case.key)
        result = await case.host.ask("tools/call", params).result()
    assert result["content"][0]["text"] == "library did page"


@drive_with_answers
async def page_done(case: FeatureCase) -> None:
    def is_told(message: Json) -> bool:
        ours = message.get("method") == "notifications/elicitation/complete"
        return ours and message["params"]["elicitationId"] == f"{case.upstream}:page-{case.key}"

    async with subscribed_to(case.host):
        await case.call("page", key=case.key).error()
        await case.did("visited", key=case.key)
        await case.host.inbox.until(is_told)


@drive_with_answers
async def roots_changed(case: FeatureCase) -> None:
    before = len((await case.did("heard"))["structuredContent"]["heard"])
    await case.host.wire.notify({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})

    async def is_heard() -> bool:
        return len((await case.did("heard"))["structuredContent"]["heard"]) > before

    await until(is_heard)


# -- on the way


@drive_in_turn
async def tools_large_results(case: FeatureCase) -> None:
    """A model that calls the same tool by `call_tool` is shown its beginning."""
    assert (await case.did("large"))["content"] == LARGE["content"]
    params = {"name": "call_tool", "arguments": {"name": f"{case.upstream}.large"}}
    shown = await case.host.ask("tools/call", params).result()
    assert shown["_meta"]["aggregator/shortened"]["handle"]
    assert len(str(shown)) < 50_000


@drive_in_turn
async def logging(case: FeatureCase) -> None:
    """Log messages from the level that the host wants, with the server's name before the logger's."""
    expected = [{**LINES[0], "logger": f"{case.upstream}/inner"}, {**LINES[1], "logger": case.upstream}]
    for level, lines in (("debug", expected), ("error", expected[1:])):
        meta: dict[str, Any] = {}
        if case.host.modern:
            meta = {f"{META}logLevel": level}
        else:
            assert await case.host.ask("logging/setLevel", {"level": level}).result() == {}
        before = len(case.host.inbox.messages)
        await case.host.call(f"{case.upstream}.log", None, **meta).result()
        said = [one for one in case.host.inbox.messages[before:] if one.get("method") == "notifications/message"]
        assert [one["params"] for one in said] == lines


@drive
async def trace(case: FeatureCase) -> None:
    sent = {"traceparent": f"00-{_TRACE}-b7ad6b7169203331-01", "baggage": "user=me"}
    result = await case.host.call(f"{case.upstream}.echo", None, **sent).result()
    received = result["structuredContent"]["received"]["_meta"]
    assert received["traceparent"].startswith(f"00-{_TRACE}-")
    assert "baggage" not in received


@drive
async def ping_of_host(case: FeatureCase) -> None:
    assert await case.host.ask("ping").result() == {}


@instead("ping_of_host")
async def no_ping(case: FeatureCase) -> None:
    assert (await case.host.ask("ping").error())["code"] == -32601


@drive
async def ping_of_server(case: FeatureCase) -> None:
    assert (await case.did("ping"))["content"][0]["text"] == "done"


@drive
async def structured_values(case: FeatureCase) -> None:
    assert (await case.did("any"))["structuredContent"] == 3.5


@instead("structured_values")
async def only_objects(case: FeatureCase) -> None:
    result = await case.did("any")
    assert "structuredContent" not in result
    assert result["content"][0]["text"] == "3.5"


@drive
async def parameter_headers(case: FeatureCase) -> None:
    """The server compares headers with the arguments, where its transport has any; so do we."""
    place = {"place": "Zürich 知"}
    if case.cell.frontend == "http" and case.host.modern:
        assert (await case.call("place", **place).error())["code"] == -32020
    else:
        assert (await case.did("place", **place))["content"][0]["text"] == place["place"]
    through = await case.host.call("call_tool", {"name": f"{case.upstream}.place", "arguments": place}).result()
    assert through["content"][0]["text"] == place["place"]


@drive
async def stream_resumption(case: FeatureCase) -> None:
    """The rest of an answer comes on another connection; 2026-07-28, SSE and stdio have no such thing to ask for."""
    wire = case.host.wire
    if not isinstance(wire, HttpWire):
        assert (await case.did("echo", key=case.key))["content"]
        return
    if case.host.modern:
        assert (await wire.take_up("any"))[0] == 405
        return
    asked = {"name": f"{case.upstream}.log", "arguments": {}, "_meta": {"progressToken": case.key}}
    message = {"jsonrpc": "2.0", "id": f"lost {case.key}", "method": "tools/call", "params": asked}
    *_, answer = (await wire.take_up(await wire.lose(message)))[1]
    assert answer["id"] == message["id"]
    assert answer["result"]["content"]
