"""The scripted model, asked as the three makers' own clients ask."""

import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.real_hosts.hosts import HOSTS, NotInstalled
from tests.real_hosts.scripted_model import ScriptedModel, Step


def ask(model: ScriptedModel, path: str, body: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    """Send a request as a host would; return the status and the events."""
    connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=10)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def anthropic(*results: str) -> dict[str, Any]:
    """Return a request of Anthropic's form, after calls with these results."""
    said = [
        {"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": text}]} for text in results
    ]
    tools = [{"name": "mcp__aggregator__time__now", "input_schema": {"type": "object"}}]
    return {"model": "m", "stream": True, "tools": tools, "messages": [{"role": "user", "content": said or "Begin."}]}


def google(*results: str) -> dict[str, Any]:
    """Return a request of Google's form, after calls with these results."""
    said = [{"functionResponse": {"name": "x", "response": {"output": text}}} for text in results]
    tools = [{"functionDeclarations": [{"name": "mcp_aggregator_time.now"}]}]
    return {"tools": tools, "contents": [{"role": "user", "parts": said or [{"text": "Begin."}]}]}


def test_anthropic_is_asked_for_a_tool_and_then_told_the_end() -> None:
    with ScriptedModel([Step("now", {"zone": "UTC"})]) as model:
        _, first = ask(model, "/v1/messages?beta=true", anthropic())
        _, last = ask(model, "/v1/messages", anthropic("12:00"))
    block, delta = first[1]["content_block"], first[2]["delta"]
    assert (block["type"], block["name"]) == ("tool_use", "mcp__aggregator__time__now")
    assert json.loads(delta["partial_json"]) == {"zone": "UTC"}
    assert [events[-2]["delta"]["stop_reason"] for events in (first, last)] == ["tool_use", "end_turn"]
    assert [list(request.view.results) for request in model.requests] == [[], ["text\n12:00"]]
    assert not model.faults


def test_openai_takes_a_tool_in_a_namespace() -> None:
    """The maker's own client reads the events; Codex gives namespaces, which calls name apart."""
    # It takes a second to import.
    from openai import OpenAI

    tools: Any = [
        {"type": "namespace", "name": "mcp__aggregator", "tools": [{"type": "function", "name": "time__now"}]}
    ]
    with ScriptedModel([Step("now")]) as model:
        client = OpenAI(base_url=f"{model.url}/v1", api_key="scripted", max_retries=0)
        kinds, calls = [], []
        for event in client.responses.create(model="m", input=[], tools=tools, stream=True):
            kinds.append(event.type)
            if event.type == "response.output_item.done":
                calls.append(event.item.to_dict())
        client.close()
    assert kinds == ["response.created", "response.output_item.done", "response.completed"]
    assert [(call["namespace"], call["name"], call["arguments"]) for call in calls] == [
        ("mcp__aggregator", "time__now", "{}")
    ]
    assert [*model.requests[0].view.definitions] == ["mcp__aggregator/time__now"]


def test_google_takes_names_with_dots() -> None:
    with ScriptedModel([Step("now", {"zone": "UTC"})]) as model:
        path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
        _, first = ask(model, path, google())
        _, last = ask(model, path, google("12:00"))
    (part,) = first[0]["candidates"][0]["content"]["parts"]
    assert part["functionCall"] == {"name": "mcp_aggregator_time.now", "args": {"zone": "UTC"}}
    assert "text" in last[0]["candidates"][0]["content"]["parts"][0]


def test_a_step_runs_its_change_once() -> None:
    """A host that sends a request twice gets the same step, and the world is changed once."""
    changes: list[str] = []
    with ScriptedModel([Step("now", before=lambda: changes.append("changed"))]) as model:
        answers = [ask(model, "/v1/messages", anthropic())[1][1] for _ in range(2)]
    assert answers[0]["content_block"]["name"] == answers[1]["content_block"]["name"] == "mcp__aggregator__time__now"
    assert changes == ["changed"]


def test_a_name_that_is_only_in_the_text_is_known() -> None:
    """Claude Code keeps definitions back until the model searches for them."""
    body = anthropic() | {"system": [{"type": "text", "text": "Deferred:\nmcp__aggregator__maps__route"}]}
    with ScriptedModel([Step("route")]) as model:
        _, events = ask(model, "/v1/messages", body)
    assert events[1]["content_block"]["name"] == "mcp__aggregator__maps__route"


def test_a_tool_that_is_not_shown_is_a_fault_and_ends_the_turn() -> None:
    with ScriptedModel([Step("weather")]) as model:
        _, events = ask(model, "/v1/messages", anthropic())
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert model.faults == ["step 1: no tool whose name ends with weather"]


@pytest.mark.parametrize(
    ("path", "body", "status"), [("/v1/other", anthropic(), 404), ("/v1/messages", {"tools": [{"name": "x"}]}, 400)]
)
def test_what_is_not_in_the_script_is_refused(path: str, body: dict[str, Any], status: int) -> None:
    with ScriptedModel([Step("now")]) as model:
        assert ask(model, path, body)[0] == status


def test_a_request_without_tools_is_not_counted() -> None:
    with ScriptedModel([Step("now")]) as model:
        _, events = ask(model, "/v1/messages", {"messages": [{"role": "user", "content": "A title, please."}]})
    assert events[1]["content_block"]["type"] == "text"
    assert not model.requests


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.id)
def test_a_host_that_is_not_there_is_named(host: Any, tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match="sh scripts/try-hosts"):
        host.command(tmp_path)
