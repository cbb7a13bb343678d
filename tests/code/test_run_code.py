"""Programs through the gateway: each call of theirs goes the road of a host's own calls."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.code import programs as programs_module
from aggregator.code.sandbox.bounds import CallFailed
from aggregator.code.sandbox.prelude import BESIDE
from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import OperatorError
from aggregator.frontends.v1.execute import CallRunner
from aggregator.frontends.v1.parse_calls import CallBatch, ParsedCall
from aggregator.gateway.host import Host
from aggregator.upstream.connection import JsonRpcRequest
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, error_data, make_config
from tests.meta.conftest import SERVERS, MetaHarness, OpenHarness
from tests.meta.test_exposure import META, names
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json, text_result
from tests.polling import until

ERAS: Final = [LEGACY, MODERN]
YES: Final[Json] = {"action": "accept", "content": {"allow": True}}
CONFIRMED: Final = {"agents": {"local": {"allow": ["*"], "confirm": ["git.delete_repo"], "expose": "code"}}}


def recorded(harness: MetaHarness) -> list[CallRecord]:
    """Have the records of all further calls put into a list."""
    records: list[CallRecord] = []
    observers = harness.app.gateway.call_log.observers
    observers.sinks = (*observers.sinks, records.append)
    return records


async def ran(harness: MetaHarness, host: Host, code: str, **more: Any) -> tuple[str, bool]:
    """Run a program. Return the text that came of it, and whether it failed."""
    answer = await harness.call(host, "run_code", {"code": code}, **more)
    result = answer["result"]
    (block,) = result["content"]
    return block["text"], result.get("isError", False)


@pytest.fixture(params=ERAS)
def version(request: pytest.FixtureRequest) -> str:
    asked: str = request.param
    return asked


# -- where it is listed, and for whom it is there


@pytest.mark.parametrize(
    ("settings", "listed"),
    [
        ({"expose": "code"}, True),
        ({"sse": {"expose": "code"}}, True),
        ({"http": {"expose": "code"}}, False),
        ({"expose": "search"}, False),
        ({"expose": "all"}, False),
        ({"expose": "code", "sse": {"expose": "search"}}, False),
    ],
)
async def test_only_where_it_is_exposed(open_harness: OpenHarness, settings: Json, listed: bool) -> None:
    """Listed beside the five, or not there at all: a call by its name is one of an unknown tool."""
    async with open_harness(**settings) as harness:
        host = harness.host("local")
        shown = names(await harness.listed(host))
        assert ("run_code" in shown) is listed
        answer = await harness.call(host, "run_code", {"code": "1"})
        unknown = await harness.call(host, "run_cod", {"code": "1"})
        inside = await harness.call(host, "call_tool", {"name": "run_code", "arguments": {"code": "1"}})
        if listed:
            assert shown[: len(META) + 1] == [*META, "run_code"]
            assert answer["result"]["content"][0]["text"] == inside["result"]["content"][0]["text"] == "1"
        else:
            assert answer["error"]["code"] == unknown["error"]["code"]
            assert error_data(inside)["code"] == "unknown_tool"


_ALONE: Final = "call_tool, search_tools and describe_tools have nothing before their names"
_BY_CALL: Final = "Call it by call_tool(name, {arguments})"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("call_tool('mcp__aggregator__list_servers')", "maps (ready, 2 tools)"),
        ("call_tool('aggregator.search_tools', {'query': 'weather'})", "maps.get_weather: Weather forecast"),
        ("call_tool('mcp__aggregator__call_tool', {'name': 'maps.drive', 'arguments': {}})", "did drive"),
        ("call_tool('SearchTools', {'query': 'weather'})", "Did you mean 'search_tools'?"),
        ("call_tool('nix.search_tools', {'query': 'weather'})", "Did you mean 'search_tools'?"),
        ("call_tool('aggregator_search_tools', {'query': 'weather'})", "Did you mean 'search_tools'?"),
        ("mcp__aggregator__call_tool('maps.drive', {})", _ALONE),
        ("aggregator__search_tools('weather')", _ALONE),
        ("aggregator.call_tool('maps.drive')", _ALONE),
        ("functions.describe_tools(['maps.drive'])", _ALONE),
        ("from aggregator import call_tool", "call_tool, search_tools and describe_tools need no import"),
        ("mcp__aggregator__list_servers()", _BY_CALL),
        ("read_result('h')", _BY_CALL),
        ("mcp__maps__drive()", "A tool is called by call_tool('server.tool', {arguments})"),
    ],
)
async def test_our_tools_by_the_names_of_hosts(open_harness: OpenHarness, code: str, said: str) -> None:
    """Those that name one tool work, as outside of a program; for others the error says what to write."""
    async with open_harness(expose="code") as harness:
        text, _ = await ran(harness, harness.host("local"), code)
        assert said in text


async def test_a_policy_gives_it_to_an_agent(open_harness: OpenHarness) -> None:
    """`expose` of an agent counts before that of the frontend, both ways."""
    policies = {"agents": {"coder": {"allow": ["maps.*"], "expose": "code"}, "other": {"allow": ["maps.*"]}}}
    async with open_harness(policies, expose="search") as harness:
        assert "run_code" in names(await harness.listed(harness.host("coder")))
        assert "run_code" not in names(await harness.listed(harness.host("other")))
        assert (await ran(harness, harness.host("coder"), "1 + 1")) == ("2", False)
        described = harness.app.browser.meta_tool("run_code")
        assert described is not None
        assert described.name == "run_code"
        assert "error" in await harness.call(harness.host("other"), "run_code", {"code": "1"})


async def test_what_a_model_is_told(open_harness: OpenHarness) -> None:
    """The instructions name the way to tools, as with `search`."""
    async with open_harness(expose="code") as harness:
        told = await harness.ask(harness.host("local"), "initialize", {"protocolVersion": LEGACY})
        assert "search_tools" in told["result"]["instructions"]


async def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exposing code without its package is a mistake of the operator, told at the start."""
    monkeypatch.setattr("aggregator.code.sandbox.bounds.find_spec", lambda name: None)
    code: Json = {"expose": "code"}
    frontends: list[Json] = [{frontend: code} for frontend in ("http", "sse", "stdio")]
    for settings in (code, *frontends):
        with pytest.raises(OperatorError, match="pip install"):
            MetaHarness(make_config(tmp_path, SERVERS, **settings), {})
    harness = MetaHarness(make_config(tmp_path, SERVERS), {})
    harness.set_policies({"agents": {"one": {"allow": ["*"], "expose": "code"}}})
    with pytest.raises(OperatorError, match="pip install"):
        programs_module.check_code(harness.app.gateway.views)
    answer = await harness.call(harness.host("one"), "run_code", {"code": "1"})
    assert "not installed" in answer["result"]["content"][0]["text"], "the policy came later than the start"


# -- results


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (text_result("words"), "words"),
        (text_result('{"a": [1, 2]}'), {"a": [1, 2]}),
        (text_result("[1, 2]"), [1, 2]),
        (text_result("{no json"), "{no json"),
        (text_result("42"), "42"),
        ({"content": [], "structuredContent": {"n": 1}}, {"n": 1}),
        ({"content": [{"type": "text", "text": "said"}], "structuredContent": {"n": 1}}, {"n": 1}),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": []}, ""),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
            [{"type": "text", "text": "a"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}],
        ),
    ],
)
async def test_results_are_values(open_harness: OpenHarness, version: str, result: Json, value: Any) -> None:
    """Structured content as it is, else text, an object or array in it as a value; other content as its blocks."""

    async def answering(params: Json) -> Json:
        return result

    async with open_harness(expose="code") as harness:
        harness.fake_upstreams["maps"].answer = answering
        text, failed = await ran(
            harness, harness.host("local", version), "import json\njson.dumps(call_tool('maps.drive'))"
        )
        assert not failed
        assert json.loads(text) == value


async def test_a_program_reads_and_calls(open_harness: OpenHarness, version: str) -> None:
    """It finds a tool, reads its parameters and calls it, as with the meta tools."""
    code = (
        "rows = search_tools('weather')\n"
        "names = [row['name'] for row in rows]\n"
        "lines = search_tools('weather', level=1)\n"
        "assert 'city' in rows[0]['parameters'] and rows[0]['description']\n"
        "assert [row['name'] for row in lines] == names and lines[0]['description']\n"
        "assert search_tools('zzzzqqqq') == []\n"
        "assert 'inputSchema' in search_tools('weather', detail='full')[0]\n"
        "schema = describe_tools('maps.get_weather')['tools'][0]\n"
        "print('maps.get_weather' in names, schema['name'])\n"
        "print(call_tool('maps.get_weather', {'city': 'Bern', 'days': 2}))\n"
        "print(call_tool('list_servers'))\n"
        "import asyncio\n"
    )
    async with open_harness(expose="code") as harness:
        text, failed = await ran(harness, harness.host("local", version), code)
        assert not failed, text
        assert text.startswith("True maps.get_weather\ndid get_weather\n")
        assert "Maps and weather" in text
        (sent,) = harness.fake_upstreams["maps"].calls
        assert sent["arguments"]["city"] == "Bern"


async def test_large_results_reach_the_program_and_short_ones_the_model(open_harness: OpenHarness) -> None:
    """A program gets all of a result; of what it prints, the model gets a beginning."""
    rows = [{"id": number, "name": f"row {number}"} for number in range(8_000)]

    async def answering(params: Json) -> Json:
        return text_result(json.dumps(rows))

    async with open_harness(expose="code") as harness:
        harness.fake_upstreams["maps"].answer = answering
        host = harness.host("local")
        assert await ran(harness, host, "len(call_tool('maps.drive'))") == ("8000", False)
        text, _ = await ran(harness, host, "call_tool('maps.drive')")
        assert len(text) < 60_000
        assert "more characters are left out" in text


# -- the same road


async def test_each_call_is_on_record(open_harness: OpenHarness, version: str) -> None:
    """A row for the program, and one for each of its calls below it, good and bad."""
    code = (
        "call_tool('maps.drive')\ntry: call_tool('maps.nothing')\nexcept RuntimeError: pass\nsearch_tools('weather')\n"
    )
    async with open_harness(expose="code") as harness:
        records = recorded(harness)
        host = harness.host("local", version)
        meta = {"_meta": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}}
        await harness.call(host, "run_code", {"code": code}, **meta)
        *inner, outer = records
        assert [record.asked_name for record in inner] == ["maps.drive", "maps.nothing", "search_tools"]
        assert [record.outcome.status for record in inner] == ["ok", "invalid", "ok"]
        assert {record.caller.via for record in inner} == {"run_code"}
        assert {record.trace.parent_id for record in inner} == {outer.trace.span_id}
        assert {record.trace.trace_id for record in records} == {"a" * 32}
        assert (outer.asked_name, outer.called.tool, outer.caller.via) == ("run_code", "run_code", None)
        assert outer.outcome.status == "ok"
        assert outer.trace.parent_id == "b" * 16


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("call_tool('git.delete_repo', {'name': 'x'})", "not allowed"),
        ("call_tool('git__delete_repo', {'name': 'x'})", "not allowed"),
        ("call_tool('call_tool', {'name': 'git.delete_repo'})", "not allowed"),
        ("call_tool('git.hidden')", "Unknown tool"),
        ("describe_tools(['git.hidden'])['missing']['git.hidden']", "Unknown tool"),
        ("call_tool('maps.get_weather', {'days': 'many'})", "days"),
        ("call_tool('maps.get_weather', {'city': 'Bern', 'days': [1]})", "days"),
        ("call_tool('run_code', {'code': '1'})", "cannot run another"),
        ("call_tool('call_tool', {'name': 'run_code', 'arguments': {'code': '1'}})", "cannot run another"),
        ('_call_now(\'["run_code", {"code": "1"}]\')', "no function"),
        ("call_tool('read_tool', {'name': 'maps.drive'})", "only read"),
        ("call_tool('')", "name"),
        ("call_tool(5)", "name"),
        ("call_tool('maps.drive', [1])", "object"),
        ("search_tools('x', level=9)", "level"),
        ("search_tools('x', wrong=1)", "wrong"),
    ],
)
async def test_nothing_is_reached_without_a_permit(
    open_harness: OpenHarness, version: str, code: str, said: str
) -> None:
    """Refusals are exceptions with their words, and no upstream hears of the call."""
    policies = {
        "agents": {"coder": {"allow": ["maps.*"], "deny": ["git.*"], "denials": "explicit", "expose": "code"}},
    }
    async with open_harness(policies, read_tool=True) as harness:
        host = harness.host("coder", version)
        caught = f"try:\n    print({code})\nexcept RuntimeError as error:\n    print(error)"
        text, failed = await ran(harness, host, caught)
        assert not failed
        assert said.lower() in text.lower() or "unknown tool" in text.lower(), text
        assert harness.sent == []


async def test_an_error_of_a_tool_is_an_exception(open_harness: OpenHarness) -> None:
    """`isError` raises with its text; uncaught it ends the program, with the line."""

    async def failing(params: Json) -> Json:
        return {**text_result("the road is closed"), "isError": True}

    async with open_harness(expose="code") as harness:
        harness.fake_upstreams["maps"].answer = failing
        text, failed = await ran(harness, harness.host("local"), "x = 1\ncall_tool('maps.drive')")
        assert failed
        assert text.endswith("line 2\n    call_tool('maps.drive')\nRuntimeError: the road is closed")


async def test_a_policy_that_changes_meanwhile(open_harness: OpenHarness) -> None:
    """Each call is ruled on as things are when it is made."""
    allowed = {"agents": {"coder": {"allow": ["maps.*"], "expose": "code"}}}
    async with open_harness(allowed) as harness:

        async def answering(params: Json) -> Json:
            harness.set_policies({"agents": {"coder": {"allow": ["git.*"], "expose": "code"}}})
            return text_result("ok")

        harness.fake_upstreams["maps"].answer = answering
        code = "print(call_tool('maps.drive'))\ncall_tool('maps.drive')"
        text, failed = await ran(harness, harness.host("coder"), code)
        assert failed
        assert len(harness.sent) == 1, text


async def test_limits_of_the_policy_count_each_call(open_harness: OpenHarness) -> None:
    """A program is no way past a limit on calls."""
    policies = {"agents": {"coder": {"allow": ["maps.*"], "expose": "code", "limits": {"maps.*": {"per_minute": 2}}}}}
    async with open_harness(policies) as harness:
        text, failed = await ran(harness, harness.host("coder"), "for n in range(5): call_tool('maps.drive')")
        assert failed
        assert "at most 2 such calls" in text
        assert len(harness.sent) == 2


# -- bounds


@pytest.mark.parametrize(
    "build",
    [
        "a = 1\nfor n in range(90): a = [a]\n",
        "a = 1\nfor n in range(200): a = {'x': a}\n",
        "a = list(range(240_000))\n",
        "a = list(range(300_000))\n",
        "a = 'x' * 8_000_000\n",
        "a = {str(n): n for n in range(50_000)}\n",
        "a = 10 ** 400\n",
        "a = '\\ud800\\x00'\n",
    ],
)
async def test_odd_arguments(open_harness: OpenHarness, version: str, build: str) -> None:
    """What a host could not send, or could, ends in a result or an exception, and the next call is made."""
    async with open_harness(CONFIRMED) as harness:
        code = (
            f"{build}for name in ('git.create_issue', 'git.delete_repo'):\n"
            "    try: print(call_tool(name, {'value': a}) == 'did create_issue')\n"
            "    except RuntimeError as error: print('refused', len(str(error)) < 2_000)\n"
            "print(call_tool('maps.drive'))"
        )
        text, failed = await ran(harness, harness.host("local", version), code)
        assert not failed, text
        first, second, last = text.splitlines()
        assert first in ("True", "refused True")
        assert second == "refused True"
        assert last == "did drive"


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"max_calls": 3}, "for n in range(5): call_tool('maps.drive')", "may make 3 calls"),
        ({"timeout": "200ms"}, "while True: pass", "TimeoutError"),
        ({"memory": "16MiB"}, "x = ['y' * 1000 for n in range(10**6)]", "MemoryError"),
    ],
)
async def test_bounds_are_those_of_the_configuration(
    open_harness: OpenHarness, settings: Json, code: str, said: str
) -> None:
    """Calls, time and memory."""
    async with open_harness(expose="code", code=settings) as harness:
        text, failed = await ran(harness, harness.host("local"), code)
        assert failed
        assert said in text
        assert len(harness.sent) == settings.get("max_calls", 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"code": "#" * (256 * 1024 + 1)}, "may have"),
        ({"code": "é" * (128 * 1024 + 1)}, "may have"),
        ({}, "code"),
        ({"code": "1", "language": "python"}, "language"),
    ],
)
async def test_bad_arguments(open_harness: OpenHarness, arguments: Json, said: str) -> None:
    """A program is a text of a bounded size, and nothing else."""
    async with open_harness(expose="code") as harness:
        answer = await harness.call(harness.host("local"), "run_code", arguments)
        assert error_data(answer)["code"] == "invalid_arguments"
        assert said in answer["result"]["content"][0]["text"]


async def test_too_many_programs(open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that runs too many at once is told to come back."""
    monkeypatch.setattr("aggregator.code.sandbox.sandbox.OF_ONE_AGENT", 0)
    async with open_harness(expose="code") as harness:
        answer = await harness.call(harness.host("local"), "run_code", {"code": "1"})
        assert error_data(answer)["code"] == "limit_reached"
        assert error_data(answer)["retryable"] is True


async def test_cancelling_the_program_cancels_its_calls(open_harness: OpenHarness, version: str) -> None:
    """The upstream's answer is not waited for any more, and both are on record as cancelled."""
    ended = asyncio.Event()

    async def slow(params: Json) -> Json:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    async with open_harness(expose="code") as harness:
        records = recorded(harness)
        harness.fake_upstreams["maps"].answer = slow
        host = harness.host("local", version, FORMS)
        running = asyncio.ensure_future(ran(harness, host, "call_tool('maps.drive')"))
        await until(lambda: harness.sent)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with asyncio.timeout(10):
            await ended.wait()
        await until(lambda: len(records) == 2)
        assert [record.outcome.status for record in records] == ["cancelled"] * 2


async def test_progress_tells_the_calls(open_harness: OpenHarness) -> None:
    """A host that gave a token hears of each call of the program, under its own token."""
    async with open_harness(expose="code") as harness:
        channel = AnsweringBackChannel()
        code = "for n in range(3): call_tool('maps.drive')"
        meta = {"progressToken": "mine"}
        await harness.call(harness.host("local"), "run_code", {"code": code}, channel, _meta=meta)
        told = [params for method, params in channel.notifications if method == "notifications/progress"]
        assert [(params["progressToken"], params["progress"]) for params in told] == [("mine", n) for n in (1, 2, 3)]
        assert told[0]["message"] == "call 1: call_tool maps.drive"
        assert all("progressToken" not in sent.get("_meta", {}) for sent in harness.fake_upstreams["maps"].calls)


@pytest.mark.parametrize("end", ["", "\n1 / 0"])
async def test_the_last_progress_of_a_program_is_told_before_its_answer(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Reports come at a rate: the one that waits is sent once the program has ended, also by an error."""
    monkeypatch.setattr("aggregator.gateway.calls.progress.BURST", 1.0)
    monkeypatch.setattr("aggregator.gateway.calls.progress.RATE", 0.001)
    async with open_harness(expose="code") as harness:
        channel = AnsweringBackChannel()
        code = f"for n in range(3): call_tool('maps.drive'){end}"
        await harness.call(harness.host("local"), "run_code", {"code": code}, channel, _meta={"progressToken": "mine"})
        told = [params["progress"] for method, params in channel.notifications if method == "notifications/progress"]
        assert told == [1, 3]


async def test_progress_of_a_tool_is_not_told_under_the_token_of_the_program(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is of the program's own request: its progress would seem to go back."""

    async def take(request: JsonRpcRequest) -> Json:
        if request.on_progress is not None:
            request.on_progress({"progress": 0.5, "message": "of the tool"})
        return text_result("did")

    async with open_harness(expose="code") as harness:
        monkeypatch.setattr(harness.fake_upstreams["maps"], "take", take)
        channel, meta = AnsweringBackChannel(), {"progressToken": "mine", "com.example/a": 1}
        await harness.call(harness.host("local"), "run_code", {"code": "call_tool('maps.drive')"}, channel, _meta=meta)
        assert [params["message"] for _, params in channel.notifications] == ["call 1: call_tool maps.drive"]


def _structured(value: Any, *texts: str) -> Json:
    return {"content": [{"type": "text", "text": text} for text in texts], "structuredContent": value}


def _beside_image(value: Any, *texts: str) -> Json:
    result = _structured(value, *texts)
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    return {**result, "content": [*result["content"], image]}


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (text_result("a"), "a"),
        ({**text_result("a"), "isError": False}, "a"),
        ({**text_result("a"), "isError": 1}, "a"),
        ({**text_result("a"), "isError": True}, None),
        ({"content": [], "structuredContent": {"n": 1}, "isError": True}, None),
        ({"content": [], "structuredContent": 0}, 0),
        ({**text_result("a"), "structuredContent": None}, "a"),
        ({"content": "odd"}, ""),
        ({"content": ["odd", {"type": "text", "text": 7}]}, ["odd", {"type": "text", "text": 7}]),
        (text_result(' {"a": 1e2}'), {"a": 100.0}),
        (text_result("\ud800"), "\ud800"),
        # What an SDK has to put into an object; the content says that it did.
        (_structured({"result": [{"a": 1}, {"a": 2}]}, '{"a": 1}', '{"a": 2}'), [{"a": 1}, {"a": 2}]),
        (_structured({"result": [{"a": 1}]}, '[{"a": 1}]'), [{"a": 1}]),
        (_structured({"result": ["a", "b"]}, "a", "b"), ["a", "b"]),
        (_structured({"result": []}), []),
        (_structured({"result": 5}, "5"), 5),
        (_structured({"result": None}), None),
        (_structured({"result": "text"}, "text"), "text"),
        (_structured({"result": '{"a": 1}'}, '{"a": 1}'), {"a": 1}),
        # A server's own `result`.
        (_structured({"result": [1]}, '{"result": [1]}'), {"result": [1]}),
        (_structured({"result": {"a": 1}}, '{"a": 1}'), {"result": {"a": 1}}),
        (_structured({"result": [1], "more": 2}, "1"), {"result": [1], "more": 2}),
        (_structured({"result": [1, 2]}, "1", "two"), {"result": [1, 2]}),
        (_structured({"result": 5}, "five"), {"result": 5}),
        # An image beside it: the content is not the value alone.
        (_beside_image({"result": 5}, "5"), {"result": 5}),
        (_beside_image({"result": [1]}, "1"), {"result": [1]}),
        (_beside_image({"result": None}), {"result": None}),
        (_beside_image({"result": []}), {"result": []}),
    ],
)
def test_what_a_program_gets_of_a_result(result: Json, value: Any) -> None:
    if result.get("isError") is True:
        with pytest.raises(CallFailed, match=r"a|failed, and not why"):
            programs_module._as_json(result)
    else:
        assert json.loads(programs_module._as_json(result).partition(BESIDE)[0]) == value


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("r = call_tool('maps.drive')\n[r['km'], r['content'][0]['text'], r.text, r.content[0].text]",
         [7, "Drive north", "Drive north", "Drive north"]),
        ("rs = [call_tool('maps.drive')]\n[rs[0].text, rs[0]['structuredContent']['km']]", ["Drive north", 7]),
        ("class A:\n    def __init__(self): self.text = 'own'\na = A()\n[a.text, call_tool('maps.drive')['km']]",
         ["own", 7]),
        ("r = call_tool('maps.get_weather', {'city': 'a'})\n[r[0], r['result'][1], r.get('result', []), r.text]",
         ["sun", "rain", ["sun", "rain"], '["sun", "rain"]']),
    ],
)  # fmt: skip
async def test_a_text_beside_structured_content(
    open_harness: OpenHarness, version: str, code: str, said: list[Any]
) -> None:
    """A program gets what is said beside a value, and a list that an SDK wrapped as the list."""

    async def answering(params: Json) -> Json:
        if params["name"] == "drive":
            return _structured({"km": 7}, "Drive north")
        return _structured({"result": ["sun", "rain"]}, "sun", "rain")

    async with open_harness(expose="code") as harness:
        harness.fake_upstreams["maps"].answer = answering
        text, failed = await ran(harness, harness.host("local", version), code)
        assert not failed, text
        assert json.loads(text) == said


# -- a person has to agree

PROGRAM: Final = (
    "print(call_tool('git.create_issue', {'title': 'first'}))\n"
    "print(call_tool('git.delete_repo', {'name': 'old'}))\n"
    "print(call_tool('git.create_issue', {'title': 'last'}))"
)
ALL: Final = "did create_issue\ndid delete_repo\ndid create_issue"


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_person_is_asked_while_the_program_waits(open_harness: OpenHarness, agreed: bool) -> None:
    """Before 2026-07-28 the host is asked within the request, and the program goes on or is told no."""

    async def person(params: Json) -> Json:
        assert "delete_repo" in params["message"]
        return YES if agreed else {"action": "decline"}

    async with open_harness(CONFIRMED) as harness:
        channel = AnsweringBackChannel(person)
        answer = await harness.call(harness.host("local", LEGACY, FORMS), "run_code", {"code": PROGRAM}, channel)
        text = answer["result"]["content"][0]["text"]
        if agreed:
            assert text == ALL
        else:
            assert answer["result"]["isError"] is True
            assert "the person declined" in text
        assert len(channel.asked) == 1
        assert [tool for _, tool in harness.sent] == [
            "create_issue",
            *(["delete_repo", "create_issue"] if agreed else []),
        ]


async def modern_call(harness: MetaHarness, host: Host, code: str, **more: Any) -> Json:
    host.capabilities = FORMS
    result: Json = (await harness.call(host, "run_code", {"code": code}, **more))["result"]
    return result


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_person_is_asked_by_the_result(open_harness: OpenHarness, agreed: bool) -> None:
    """Since 2026-07-28 the result asks, and the program goes on where it was: no call is made twice."""
    async with open_harness(CONFIRMED) as harness:
        records = recorded(harness)
        host = harness.host("local", MODERN)
        interim = await modern_call(harness, host, PROGRAM)
        assert interim["resultType"] == "input_required"
        ((key, request),) = interim["inputRequests"].items()
        assert "delete_repo" in request["params"]["message"]
        assert [tool for _, tool in harness.sent] == ["create_issue"]
        answers = {key: YES if agreed else {"action": "decline"}}
        state = {"requestState": interim["requestState"], "inputResponses": answers}
        result = await modern_call(harness, host, PROGRAM, **state)
        text = result["content"][0]["text"]
        assert text == ALL if agreed else "the person declined" in text
        assert [tool for _, tool in harness.sent] == [
            "create_issue",
            *(["delete_repo", "create_issue"] if agreed else []),
        ]
        again = await harness.call(host, "run_code", {"code": PROGRAM}, **state)
        assert again["error"]["code"] == -32602, "an answer counts once"
        assert next(record.outcome.status for record in records if record.called.tool == "run_code") == "pending"
        if agreed:
            (deleted,) = [r for r in records if r.asked_name == "git.delete_repo" and r.outcome.status == "ok"]
            assert deleted.decision.approved_by is not None
            assert deleted.decision.approved_by.startswith("host:")


async def test_several_questions_at_once(open_harness: OpenHarness) -> None:
    """Calls that run at the same time ask at the same time, and each gets its own answer."""
    code = (
        "import asyncio\n"
        "async def one(name):\n"
        "    try: return await call_tool('git.delete_repo', {'name': name})\n"
        "    except RuntimeError as error: return 'refused'\n"
        "await asyncio.gather(one('a'), one('b'), one('c'))"
    )
    async with open_harness(CONFIRMED) as harness:
        host = harness.host("local", MODERN)
        interim = await modern_call(harness, host, code)
        answered: dict[str, str] = {}
        for _ in range(3):
            if interim.get("resultType") != "input_required":
                break
            answers = {}
            for key, request in interim["inputRequests"].items():
                name = next(one for one in "abc" if f'"{one}"' in request["params"]["message"])
                answered[name] = key
                answers[key] = YES if name != "b" else {"action": "decline"}
            state = {"requestState": interim["requestState"], "inputResponses": answers}
            interim = await modern_call(harness, host, code, **state)
        assert json.loads(interim["content"][0]["text"]) == ["did delete_repo", "refused", "did delete_repo"]
        assert sorted(answered) == ["a", "b", "c"]
        assert sorted(sent["arguments"]["name"] for sent in harness.fake_upstreams["git"].calls) == ["a", "c"]


async def test_an_answer_is_good_for_this_program_only(open_harness: OpenHarness) -> None:
    """Another program, or another agent, gets nothing by it, and the program still waits."""
    policies = {"agents": {**CONFIRMED["agents"], "other": {"allow": ["*"], "expose": "code"}}}
    async with open_harness(policies) as harness:
        host = harness.host("local", MODERN)
        interim = await modern_call(harness, host, PROGRAM)
        key = next(iter(interim["inputRequests"]))
        state = {"requestState": interim["requestState"], "inputResponses": {key: YES}}
        other = harness.host("other", MODERN)
        other.capabilities = FORMS
        for who, code in ((host, PROGRAM + "\n"), (other, PROGRAM)):
            refused = await harness.call(who, "run_code", {"code": code}, **state)
            assert refused["error"]["code"] == -32602
        assert [tool for _, tool in harness.sent] == ["create_issue"]
        assert (await modern_call(harness, host, PROGRAM, **state))["content"][0]["text"] == ALL


async def test_a_host_that_cannot_be_asked(open_harness: OpenHarness, version: str) -> None:
    """The call is refused as any other would be, and the program is told."""
    async with open_harness(CONFIRMED) as harness:
        text, failed = await ran(harness, harness.host("local", version), "call_tool('git.delete_repo', name='x')")
        assert failed
        assert "a person has to agree" in text
        assert harness.sent == []


# -- /v1


async def test_v1_counts_what_a_program_calls(open_harness: OpenHarness) -> None:
    """A conversation that may make so many calls may make them in programs too, and no more."""
    async with open_harness(expose="code", v1={"max_calls_per_conversation": 3}) as harness:
        runner = CallRunner(harness.app.gateway, 3)
        code = "for n in range(2): call_tool('maps.drive')"
        asked = ParsedCall("run_code", {"code": code})
        batch = CallBatch("single", (asked,), "talk")
        for sent in (2, 3):
            (outcome,) = await runner.run(batch, harness.host("local").principal, {})
            assert len(harness.sent) == sent
        assert outcome.is_error
        assert "No further call" in outcome.content
