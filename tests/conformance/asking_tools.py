"""The tools and the prompt that ask the host for something."""

from typing import Final

from tests.conformance.input_requests import AskingTool, InputRequests, ToolContext, elicit, roots, sample
from tests.peers.toolbox import Json, text, text_result

_STRING: Final[Json] = {"type": "string"}
_OK: Final = elicit("Please confirm", ("ok",), ok={"type": "boolean"})
_NAME: Final = elicit("What is your name?", ("name",), name=_STRING)


def _sampling(known: ToolContext) -> Json | InputRequests:
    answer = known.answer("sampled")
    if answer is None:
        return InputRequests({"sampled": sample(known.arguments["prompt"])})
    return text_result(f"LLM response: {answer['content']['text']}")


def _form(key: str, request: Json) -> AskingTool:
    """Return a tool that asks once and reports the answer, a refusal too."""

    def ask(known: ToolContext) -> Json | InputRequests:
        answer = known.answer(key)
        if answer is None:
            return InputRequests({key: request})
        return text_result(f"Elicitation completed: action={answer.get('action')}, content={answer.get('content')}")

    return ask


def _elicitation(known: ToolContext) -> Json | InputRequests:
    fields: dict[str, Json] = {"username": _STRING, "email": _STRING}
    return _form("user", elicit(known.arguments["message"], tuple(fields), **fields))(known)


def _choice(values: list[str], titles: list[str]) -> list[Json]:
    return [{"const": value, "title": title} for value, title in zip(values, titles, strict=True)]


_OPTIONS: Final = ["option1", "option2", "option3"]
_VALUES: Final = ["value1", "value2", "value3"]
_DEFAULTS: Final = elicit(
    "Please review the defaults",
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
_ENUMS: Final = elicit(
    "Please choose",
    untitledSingle={"type": "string", "enum": _OPTIONS},
    titledSingle={"type": "string", "oneOf": _choice(_VALUES, ["First Option", "Second Option", "Third Option"])},
    legacyEnum={
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    titledMulti={
        "type": "array",
        "items": {"anyOf": _choice(_VALUES, ["First Choice", "Second Choice", "Third Choice"])},
    },
)


def _name(known: ToolContext) -> Json | InputRequests:
    content = known.accepted("user_name")
    if content is None or not isinstance(content.get("name"), str):
        return InputRequests({"user_name": _NAME})
    return text_result(f"Hello, {content['name']}!")


def _capital(known: ToolContext) -> Json | InputRequests:
    answer = known.answer("capital_question")
    if answer is None:
        return InputRequests({"capital_question": sample("What is the capital of France?")})
    return text_result(answer["content"]["text"])


def _roots(known: ToolContext) -> Json | InputRequests:
    answer = known.answer("client_roots")
    if answer is None:
        return InputRequests({"client_roots": roots()})
    return text_result("Roots: " + ", ".join(root["uri"] for root in answer["roots"]))


def _request_state(known: ToolContext) -> Json | InputRequests:
    if known.state != {"asked": "confirm"} or known.accepted("confirm") is None:
        return InputRequests({"confirm": _OK}, {"asked": "confirm"})
    return text_result("state-ok")


def _multiple(known: ToolContext) -> Json | InputRequests:
    name, greeting, where = known.accepted("user_name"), known.answer("greeting"), known.answer("client_roots")
    if known.state is None or name is None or greeting is None or where is None:
        asked = {"user_name": _NAME, "greeting": sample("Generate a greeting"), "client_roots": roots()}
        return InputRequests(asked, {"asked": sorted(asked)})
    return text_result(f"{greeting['content']['text']} {name['name']}, of {len(where['roots'])} roots")


def _multi_round(known: ToolContext) -> Json | InputRequests:
    state = known.state or {}
    first, second = known.accepted("step1"), known.accepted("step2")
    if state.get("round") == 2 and second is not None:
        return text_result(f"{state['name']} likes {second['color']}")
    if state.get("round") == 1 and first is not None:
        question = elicit("Step 2: What is your favorite color?", ("color",), color=_STRING)
        return InputRequests({"step2": question}, {"round": 2, "name": first["name"]})
    return InputRequests({"step1": elicit("Step 1: What is your name?", ("name",), name=_STRING)}, {"round": 1})


def _capabilities(known: ToolContext) -> Json | InputRequests:
    possible = {"sampling": ("model", sample("Say something")), "elicitation": ("person", _NAME)}
    asked = dict(request for name, request in possible.items() if name in known.capabilities)
    if not asked or all(known.answer(key) is not None for key in asked):
        return text_result(f"Asked for {sorted(asked)}")
    return InputRequests(asked)


def _context(known: ToolContext) -> Json | InputRequests:
    content = known.accepted("user_context")
    if content is None:
        question = elicit("What context should the prompt use?", ("context",), context=_STRING)
        return InputRequests({"user_context": question})
    return {"messages": [{"role": "user", "content": text(f"In the context of {content['context']}")}]}


ASKING_TOOLS: Final[dict[str, AskingTool]] = {
    "test_sampling": _sampling,
    "test_elicitation": _elicitation,
    "test_elicitation_sep1034_defaults": _form("review", _DEFAULTS),
    "test_elicitation_sep1330_enums": _form("choice", _ENUMS),
    "test_missing_capability": _capital,
    "test_streaming_elicitation": _name,
    "test_input_required_result_elicitation": _name,
    "test_input_required_result_sampling": _capital,
    "test_input_required_result_list_roots": _roots,
    "test_input_required_result_request_state": _request_state,
    "test_input_required_result_multiple_inputs": _multiple,
    "test_input_required_result_multi_round": _multi_round,
    "test_input_required_result_tampered_state": _request_state,
    "test_input_required_result_capabilities": _capabilities,
}
ASKING_PROMPTS: Final[dict[str, AskingTool]] = {"test_input_required_result_prompt": _context}
