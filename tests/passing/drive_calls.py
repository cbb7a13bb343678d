"""What happens on the way of a call: questions to the host, log lines, headers, the trace."""

from typing import Any, Final

from tests.access.waiting import until
from tests.journeys.hosts import META
from tests.passing.everything import ASKED, LINES, QUESTIONS
from tests.passing.shelves import hearing
from tests.passing.stage import At, asked_drive, drive, drive_in_turn, instead
from tests.peers.toolbox import Json
from tests.questions.entries import ANSWERS
from tests.questions.people import again, asked, carried, is_question, reply

_ANSWERS: Final[dict[str, Json]] = {
    "form": {"action": "accept", "content": {"answer": "知识"}},
    "page": {"action": "accept"},
    "sampling": ANSWERS["sample"],
    "roots": ANSWERS["roots"],
}
_TRACE: Final = "0af7651916cd43dd8448eb211c80319c"


# -- questions


async def _asks(at: At, what: str) -> None:
    """The question is the server's own but for the name of who asks; the answer is the host's; the call is run once."""
    params = {"name": f"{at.upstream}.ask", "arguments": {"what": what}}
    result, questions = await carried(at.host, "tools/call", params, [[_ANSWERS[what]]])
    assert result["structuredContent"]["answer"] == _ANSWERS[what]
    assert [question["method"] for question in questions] == [QUESTIONS[what]["method"]]
    message = QUESTIONS[what]["params"].get("message")
    if message is not None:
        assert questions[0]["params"]["message"] == f"[{at.upstream}] {message}"
    assert questions[0]["params"]["_meta"]["aggregator/server"] == at.upstream


@asked_drive
async def ask_form(at: At) -> None:
    await _asks(at, "form")


@asked_drive
async def ask_page(at: At) -> None:
    await _asks(at, "page")


@asked_drive
async def ask_sampling(at: At) -> None:
    await _asks(at, "sampling")


@asked_drive
async def ask_roots(at: At) -> None:
    await _asks(at, "roots")


@asked_drive
async def ask_together(at: At) -> None:
    """A host of 2026-07-28 gets them together."""
    answers = {QUESTIONS[what]["method"]: _ANSWERS[what] for what in ("form", "roots")}
    params = {"name": f"{at.upstream}.ask_both"}
    if at.host.modern:
        interim = await at.host.ask("tools/call", params).result()
        replies = {key: answers[one["method"]] for key, one in interim["inputRequests"].items()}
        assert len(replies) == len(answers)
        result = await again(at.host, "tools/call", params, interim, replies).result()
    else:
        before = sum(map(is_question, at.host.inbox.messages))
        call = at.host.ask("tools/call", params)
        for number, _ in enumerate(answers, before + 1):
            question = await asked(at.host, number)
            await reply(at.host, question, answers[question["method"]])
        result = await call.result()
    assert result["structuredContent"] == {what: _ANSWERS[what] for what in ("form", "roots")}


@asked_drive
async def ask_in_prompt(at: At) -> None:
    params = {"name": f"{at.upstream}.ask"}
    result, (question,) = await carried(at.host, "prompts/get", params, [[_ANSWERS["form"]]])
    assert result["messages"][0]["content"]["text"] == "accept"
    assert question["params"]["message"].startswith(f"[{at.upstream}] ")


@asked_drive
async def ask_in_read(at: At) -> None:
    uri = ASKED.replace("://", f"://{at.upstream}/")
    result, (question,) = await carried(at.host, "resources/read", {"uri": uri}, [[_ANSWERS["form"]]])
    assert result["contents"] == [{"uri": uri, "text": "accept"}]
    assert question["params"]["message"].startswith(f"[{at.upstream}] ")


@drive_in_turn
async def ask_unable(at: At) -> None:
    before = len(at.host.inbox.messages)
    message = await at.call("ask", what="form").message()
    assert at.host.inbox.messages[before:] == []
    failed = message["error"] if "error" in message else message["result"]["_meta"]["aggregator/error"]
    assert failed["code"] != "upstream_timeout"


@asked_drive
async def page_required(at: At) -> None:
    params: Json = {"name": f"{at.upstream}.page", "arguments": {"key": at.key}}
    if at.host.modern:
        interim = await at.host.ask("tools/call", params).result()
        (question,) = interim["inputRequests"].values()
        assert (question["params"]["mode"], question["params"]["url"]) == ("url", "https://example.com/in?a=1")
        await at.did("visited", key=at.key)
        result = await again(at.host, "tools/call", params, interim, [_ANSWERS["page"]]).result()
    else:
        error = await at.host.ask("tools/call", params).error()
        assert error["code"] == -32042
        assert error["data"]["elicitations"][0]["elicitationId"] == f"{at.upstream}:page-{at.key}"
        await at.did("visited", key=at.key)
        result = await at.host.ask("tools/call", params).result()
    assert result["content"][0]["text"] == "library did page"


@asked_drive
async def page_done(at: At) -> None:
    def is_told(message: Json) -> bool:
        ours = message.get("method") == "notifications/elicitation/complete"
        return ours and message["params"]["elicitationId"] == f"{at.upstream}:page-{at.key}"

    async with hearing(at.host):
        await at.call("page", key=at.key).error()
        await at.did("visited", key=at.key)
        await at.host.inbox.until(is_told)


@asked_drive
async def roots_changed(at: At) -> None:
    before = len((await at.did("heard"))["structuredContent"]["heard"])
    await at.host.wire.notify({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})

    async def is_heard() -> bool:
        return len((await at.did("heard"))["structuredContent"]["heard"]) > before

    await until(is_heard)


# -- on the way


@drive_in_turn
async def logging(at: At) -> None:
    """From the level that the host wants, the server's name before the logger's."""
    expected = [{**LINES[0], "logger": f"{at.upstream}/inner"}, {**LINES[1], "logger": at.upstream}]
    for level, lines in (("debug", expected), ("error", expected[1:])):
        meta: dict[str, Any] = {}
        if at.host.modern:
            meta = {f"{META}logLevel": level}
        else:
            assert await at.host.ask("logging/setLevel", {"level": level}).result() == {}
        before = len(at.host.inbox.messages)
        await at.host.call(f"{at.upstream}.log", None, **meta).result()
        said = [one for one in at.host.inbox.messages[before:] if one.get("method") == "notifications/message"]
        assert [one["params"] for one in said] == lines


@drive
async def trace(at: At) -> None:
    sent = {"traceparent": f"00-{_TRACE}-b7ad6b7169203331-01", "baggage": "user=me"}
    result = await at.host.call(f"{at.upstream}.echo", None, **sent).result()
    received = result["structuredContent"]["received"]["_meta"]
    assert received["traceparent"].startswith(f"00-{_TRACE}-")
    assert "baggage" not in received


@drive
async def ping_of_host(at: At) -> None:
    assert await at.host.ask("ping").result() == {}


@instead("ping_of_host")
async def no_ping(at: At) -> None:
    assert (await at.host.ask("ping").error())["code"] == -32601


@drive
async def ping_of_server(at: At) -> None:
    assert (await at.did("ping"))["content"][0]["text"] == "done"


@drive
async def structured_values(at: At) -> None:
    assert (await at.did("any"))["structuredContent"] == 3.5


@instead("structured_values")
async def only_objects(at: At) -> None:
    result = await at.did("any")
    assert "structuredContent" not in result
    assert result["content"][0]["text"] == "3.5"


@drive
async def parameter_headers(at: At) -> None:
    """The server compares headers with the arguments, where its transport has any; so do we."""
    place = {"place": "Zürich 知"}
    if at.cell.door == "http" and at.host.modern:
        assert (await at.call("place", **place).error())["code"] == -32020
    else:
        assert (await at.did("place", **place))["content"][0]["text"] == place["place"]
    through = await at.host.call("call_tool", {"name": f"{at.upstream}.place", "arguments": place}).result()
    assert through["content"][0]["text"] == place["place"]
