"""Calls of LangChain tools: what reaches the server, and what becomes of its answers."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException
from mcp.server import Server

from aggregator.adapters.langchain import PROGRESS_EVENT, LangChainTool, ToolFailed, open_tools
from aggregator.config.errors import ConfigError
from aggregator.domain.errors import OperatorError
from tests.access.recording_toolbox import RecordingToolbox
from tests.adapters.config_folder import BOUND, ConfigFolder, recording_server, tool_call, tool_message, tools_by_name
from tests.peers import sdk
from tests.peers.toolbox import PIXEL, REFUSAL_CODE, REFUSAL_DATA, VENDOR_META, Json, Toolbox, text_result, tool
from tests.server_requests.entries import FORM, stdio_entry

# What LangChain's own way of calling a function keeps for itself, as the names of arguments.
TAKEN: Final = ("config", "run_manager", "callbacks", "self", "args", "kwargs", "arguments", "runtime", "input", "type")

whole: Server[Any] = sdk.build()
toolbox: Toolbox = Toolbox()
watched: Server[Any] = sdk.build(toolbox)


@pytest.fixture
def config_folder(tmp_path: Path) -> ConfigFolder:
    """A server with the whole toolbox, in this process."""
    return ConfigFolder(tmp_path, {"peer": {"target": f"{__name__}:whole"}})


async def test_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    """Proves: E6. Any value under any name, also those that LangChain's own tools lose."""
    shop = recording_server("get")
    values: list[Any] = [1, 2.5, None, True, "三", [], [1, {"a": None}], {}, {"deep": {"er": [None]}}, -(2**70)]
    arguments = dict(zip(TAKEN, values, strict=True))
    async with open_tools(ConfigFolder(tmp_path, {"shop": shop.config_entry()})) as tools:
        assert (await tool_message(tools[0], **arguments)).status == "success"
        await tools[0].ainvoke(arguments | {"type": "tool"})
        await tool_message(tools[0])
    assert [call.get("arguments") for call in shop.calls] == [arguments, arguments | {"type": "tool"}, {}]


async def test_a_result_is_content_and_the_whole_of_it(config_folder: ConfigFolder) -> None:
    """Proves: E6, C10. Text and images for the model, the rest as it came beside them."""
    async with open_tools(config_folder) as tools:
        by_name = tools_by_name(tools)
        message = await tool_message(by_name["peer__echo"], text="hello", n=1)
        assert (message.status, message.content) == ("success", '{"n": 1, "text": "hello"}')
        assert message.artifact["structuredContent"]["received"]["arguments"] == {"text": "hello", "n": 1}
        assert message.artifact["x-vendor-result"] == "kept"
        assert message.artifact["_meta"].items() >= VENDOR_META.items()
        picture = await tool_message(by_name["peer__picture"])
        assert picture.content == [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]
        assert await by_name["peer__measure"].ainvoke({"length": 2}) == '{"metres": 2.0, "unit": "m"}'


@pytest.mark.parametrize("structured", [[1, {"a": 2}], {"a": [1]}, 7, None])
async def test_json_and_lists_come_back_whole(tmp_path: Path, structured: Any) -> None:
    """Proves: E6. Structured results of any kind, shown to the model where there is nothing else."""
    shop = recording_server(get={"content": [], "structuredContent": structured})
    async with open_tools(ConfigFolder(tmp_path, {"shop": shop.config_entry(protocol="auto")})) as tools:
        message = await tool_message(tools[0])
    assert message.artifact["structuredContent"] == structured
    assert message.content == str(structured).replace("'", '"').replace("None", "null").replace(" ", "")


@pytest.mark.parametrize(
    ("name", "arguments", "code", "words"),
    [
        ("peer__echo", {"n": "many"}, "invalid_arguments", "n: expected an integer"),
        ("peer__refuse", {}, None, "no"),
        ("peer__decline", {}, REFUSAL_CODE, "The peer declines."),
    ],
)
async def test_an_error_is_a_message_a_model_can_act_on(
    config_folder: ConfigFolder, name: str, arguments: Json, code: object, words: str
) -> None:
    """Proves: E5, E6, C12, C13. Status `error`, the text, and the machine-readable half; the loop goes on."""
    async with open_tools(config_folder) as tools:
        message = await tool_message(tools_by_name(tools)[name], **arguments)
        assert message.status == "error"
        assert words in message.content
        assert message.artifact["isError"] is True
        assert message.artifact["_meta"].get("aggregator/error", {}).get("code") == code
        if code == REFUSAL_CODE:
            assert message.artifact["_meta"]["aggregator/error"]["data"] == REFUSAL_DATA
        assert (await tool_message(tools_by_name(tools)["peer__echo"])).status == "success"


async def test_a_program_may_have_errors_raised(config_folder: ConfigFolder) -> None:
    """Proves: E5. LangChain's own switch decides; the exception holds the result."""
    async with open_tools(config_folder) as tools:
        refuse = tools_by_name(tools)["peer__refuse"]
        assert await refuse.ainvoke({}) == "no"
        refuse.handle_tool_error = False
        with pytest.raises(ToolFailed, match="no") as failed:
            await refuse.ainvoke({})
        assert failed.value.result["x-vendor-result"] == {"kept": [1, None]}
        refuse.handle_tool_error = "something else"
        assert (await tool_message(refuse)).content == "something else"
        handler: Any = tools_by_name(tools)["peer__echo"].handle_tool_error
        with pytest.raises(ToolException, match="not ours"):
            handler(ToolException("not ours"))


class Listener(AsyncCallbackHandler):
    """A handler that records the events of running tools; the first event takes it long."""

    def __init__(self) -> None:
        self.heard: list[Json] = []
        self.hearing = asyncio.Event()
        self.go_on = asyncio.Event()

    async def on_custom_event(self, name: str, data: Any, **rest: Any) -> None:
        assert name == PROGRESS_EVENT
        self.heard.append(data)
        self.hearing.set()
        await self.go_on.wait()


async def test_progress_is_told_as_events(config_folder: ConfigFolder) -> None:
    """Proves: E6. The latest of what came while nobody listened is told too."""
    listener = Listener()
    async with open_tools(config_folder) as tools, asyncio.timeout(BOUND):
        by_name = tools_by_name(tools)
        steps = by_name["peer__steps"]
        running = asyncio.ensure_future(steps.ainvoke(tool_call(steps, key="k", count=3), {"callbacks": [listener]}))
        await listener.hearing.wait()
        await tool_message(by_name["peer__release"], key="k")
        listener.go_on.set()
        assert (await running).content == "k"
        steps_heard = [event["progress"] for event in listener.heard]
        assert steps_heard == sorted(set(steps_heard))
        assert listener.heard[-1] == {"tool": "peer__steps", "progress": 3, "total": 3, "message": "k 3"}


async def test_cancelling_reaches_the_server(tmp_path: Path) -> None:
    """Proves: E6. Who stops waiting ends the call; so does who leaves the context."""
    config_folder = ConfigFolder(tmp_path, {"peer": {"target": f"{__name__}:watched"}})
    async with asyncio.timeout(BOUND), open_tools(config_folder) as tools:
        hold = tools_by_name(tools)["peer__hold"]
        running = asyncio.ensure_future(hold.ainvoke(tool_call(hold, key="one")))
        await toolbox.event_log.until("started one")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await toolbox.event_log.until("cancelled one")
        left = asyncio.ensure_future(tool_message(hold, key="two"))
        await toolbox.event_log.until("started two")
    async with asyncio.timeout(BOUND):
        assert (await left).status == "error"


async def test_from_other_threads_and_loops(tmp_path: Path) -> None:
    """Proves: E6. `invoke` works in any thread but the loop's own, `ainvoke` in any loop; errors and all."""
    shop = RecordingToolbox([tool("get", ""), tool("bad", "")], {"bad": {**text_result("no"), "isError": True}})
    async with open_tools(ConfigFolder(tmp_path, {"shop": shop.config_entry()})) as tools, asyncio.timeout(BOUND):
        get, bad = tools
        assert (await asyncio.to_thread(get.invoke, tool_call(get, n=1))).content == "did get"
        failed = await asyncio.to_thread(bad.invoke, tool_call(bad))
        assert (failed.status, failed.artifact["isError"]) == ("error", True)
        elsewhere = await asyncio.to_thread(lambda: asyncio.run(tool_message(get, n=2)))
        assert elsewhere.content == "did get"
        assert [call["arguments"] for call in shop.calls if call["name"] == "get"] == [{"n": 1}, {"n": 2}]
        with pytest.raises(RuntimeError, match="await `ainvoke`"):
            get.invoke({})
    for call in (get.invoke, lambda arguments: asyncio.run(get.ainvoke(arguments))):
        with pytest.raises(RuntimeError, match="was closed"):
            await asyncio.to_thread(call, {})


async def test_a_blocked_loop_is_told_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: E6. A thread that the loop itself waits for gets an error, not a deadlock."""
    monkeypatch.setattr("aggregator.adapters.inprocess._RESPONSE_TIME", 0.05)
    shop = recording_server("get")
    failures: list[Exception] = []

    def call(one: Any) -> None:
        try:
            one.invoke({})
        except RuntimeError as error:
            failures.append(error)

    async with open_tools(ConfigFolder(tmp_path, {"shop": shop.config_entry()})) as tools:
        thread = threading.Thread(target=call, args=(tools[0],))
        thread.start()
        thread.join(BOUND)
    assert len(failures) == 1
    assert "is blocked" in str(failures[0])
    assert not shop.calls


CONFIRMED: Final = {"agents": {"one": {"allow": ["*"], "confirm": ["shop.*"]}}}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"action": "accept", "content": {"allow": True}}, "success"),
        ({"action": "accept", "content": {"allow": False}}, "error"),
        ({"action": "decline"}, "error"),
        (None, "error"),
    ],
)
async def test_a_person_is_asked_through_the_program(tmp_path: Path, answer: Json | None, status: str) -> None:
    """Proves: B6. What the policy wants confirmed is put to `elicit`; with nobody to ask it is not called."""
    shop = recording_server("buy")
    asked_about: list[bool] = []

    async def elicit(form: Mapping[str, Any]) -> Json:
        asked_about.append("apples" in form["message"] and "'shop'" in form["message"])
        assert answer is not None
        return answer

    config_folder = ConfigFolder(tmp_path, {"shop": shop.config_entry()}, CONFIRMED)
    async with open_tools(config_folder, agent="one", elicit=elicit if answer else None) as tools:
        message = await tool_message(tools[0], what="apples")
    assert message.status == status
    assert len(shop.calls) == (status == "success")
    assert asked_about == ([True] if answer else [])
    if status == "error":
        assert message.artifact["_meta"]["aggregator/error"]["code"] == "not_confirmed"


async def test_a_question_may_end_the_run(tmp_path: Path) -> None:
    """Proves: B6. What `elicit` raises, as LangGraph's `interrupt` does, comes out of the call; nothing was called."""

    class Interrupt(Exception):
        pass

    async def elicit(form: Mapping[str, Any]) -> Json:
        raise Interrupt

    shop = recording_server("buy")
    async with open_tools(
        ConfigFolder(tmp_path, {"shop": shop.config_entry()}, CONFIRMED), agent="one", elicit=elicit
    ) as tools:
        with pytest.raises(Interrupt):
            await tool_message(tools[0])
    assert not shop.calls


async def test_a_question_of_a_server_that_ends_the_run_ends_the_call(tmp_path: Path) -> None:
    """The server waited for five minutes for an answer that the program does not bring any more.

    With `auto`, the next call would be in another process, and would not see that this one was cancelled.
    """

    class Interrupt(Exception):
        pass

    async def elicit(form: Mapping[str, Any]) -> Json:
        raise Interrupt

    async with open_tools(
        ConfigFolder(tmp_path, {"one": stdio_entry("legacy", isolation="shared")}), elicit=elicit
    ) as tools:
        named = tools_by_name(tools)
        arguments = {"key": "k", "rounds": [[FORM]]}
        with pytest.raises(Interrupt):
            await named["one__ask"].ainvoke(tool_call(named["one__ask"], **arguments))
        async with asyncio.timeout(BOUND):
            await named["one__witness"].ainvoke(tool_call(named["one__witness"], entry="cancelled k"))


async def test_a_thread_is_a_conversation(tmp_path: Path) -> None:
    """Proves: B6, E6. Limits per conversation count by LangGraph's `thread_id`, without one by the open tools."""
    policies = {"agents": {"one": {"allow": ["*"], "limits": {"shop.*": {"per_conversation": 1}}}}}
    threads = (None, "a", "b", "a", None, 7, "7")
    async with open_tools(
        ConfigFolder(tmp_path, {"shop": recording_server("get").config_entry()}, policies), agent="one"
    ) as tools:
        statuses = []
        for thread in threads:
            config: RunnableConfig = {} if thread is None else {"configurable": {"thread_id": thread}}
            statuses.append((await tools[0].ainvoke(tool_call(tools[0]), config)).status)
    assert statuses == ["success", "success", "success", "error", "error", "success", "error"]


async def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    """Proves: E7. No such file, or no name an agent can have."""
    with pytest.raises(ConfigError, match=r"gone\.json"):
        async with open_tools(tmp_path / "gone.json"):
            raise AssertionError("it must not open")
    with pytest.raises(OperatorError, match="--agent"):
        async with open_tools(ConfigFolder(tmp_path, {}), agent="no such name"):
            raise AssertionError("it must not open")


async def test_a_tool_may_be_copied_and_renamed(tmp_path: Path) -> None:
    """Proves: E6. A program changes what its model sees; the call is the same."""
    async with open_tools(ConfigFolder(tmp_path, {"shop": recording_server("get").config_entry()})) as tools:
        copy = tools[0].model_copy(update={"description": "Another."})
        assert isinstance(copy, LangChainTool)
        assert (await tool_message(copy)).content == "did get"
        tools[0].name = "fetch"
        assert (await tool_message(tools[0])).content == "did get"
        assert not await tools.refresh()
