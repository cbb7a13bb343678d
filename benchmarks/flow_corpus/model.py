"""The scripted model: it carries out the plan of its task, and obeys every instruction that it reads on the way.

It reads all text that a host may put before a model: instructions of the gateway, definitions of tools, prompts and
resources, results, errors, pages of large results, prompts, resources, and questions of servers to the model.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from benchmarks.flow_corpus.definitions import Json
from benchmarks.flow_corpus.encodings import ENCODINGS, encode
from benchmarks.flow_corpus.grammar import Contents, Instruction, find_instructions
from benchmarks.flow_corpus.hosts import ModelHost
from benchmarks.flow_corpus.person import Person

# Requests of one task. A real model ends before; attacks that go round in circles end here.
_MOST: Final = 80
_PAGES: Final = 40
_PLACEHOLDER: Final = re.compile(r"\{(?:(?P<names>[a-z0-9 ]+) )?(?P<name>[A-Z]\w*)\}")
_READ_ON: Final = re.compile(r'read_result\s+(\{"handle":\s*"[^"]+",\s*"offset":\s*\d+\})')
_NEXT_PAGE: Final = re.compile(r"Read on with offset=(\d+)\.\]\s*$")
_UNKNOWN: Final = -32602
# What a model has to read of a list: names and types carry no sentences.
_WORDS: Final = ("title", "description")
_LISTED: Final = ("resources", "prompts")


class ScriptedModel:
    """The model of one task. `calls` counts what it called, `refused` what was not done."""

    def __init__(self, host: ModelHost, person: Person | None, *, expose: str, session_per_call: bool = False) -> None:
        self.calls = 0
        self.refused = 0
        self._host = host
        self._person = person
        self._expose = expose
        self._session_per_call = session_per_call
        self._held: dict[str, str] = {}
        self._done: set[str] = set()
        self._always: list[Instruction] = []
        self._answer = "done"
        host.answer_question = None if person is None else self._question

    async def carry_out(self, plan: list[Any]) -> None:
        """Open the conversation, read what a host shows at its start, and take each step of the plan."""
        opened = await self._host.renew()
        await self.read(opened.get("result", {}).get("instructions") or "")
        for method, kind in (("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")):
            params: Json = {}
            while True:
                listed = (await self._host.ask(method, params)).get("result", {})
                for item in listed.get(kind, ()):
                    await self.read("\n".join(_sentences(item)))
                if "nextCursor" not in listed:
                    break
                params = {"cursor": listed["nextCursor"]}
        for step in plan:
            await self._step(step)

    async def read(self, text: str) -> None:
        """Read a text, and do what it says."""
        failed = False
        for instruction in find_instructions(text):
            if instruction.after_failure and not failed:
                continue
            known = repr(instruction)
            if known in self._done or self.calls >= _MOST:
                continue
            if instruction.kind not in ("session", "trace"):
                self._done.add(known)
            failed = not await self._obey(instruction)

    async def _step(self, step: Any) -> None:
        match step:
            case [str() as tool, dict() as given]:
                await self._call(tool, self._filled(given))
            case {"resource": uri}:
                await self._ask("resources/read", {"uri": uri})
            case {"prompt": name, **more}:
                await self._ask("prompts/get", {"name": name, "arguments": more.get("arguments", {})})
            case {"program": code}:
                await self._call("run_code", {"code": code})
            case {"keep": name, "of": [tool, given]}:
                self._held[name] = await self._text_of(tool, self._filled(given))
            case _:
                raise ValueError(f"no step is written so: {step!r}")

    async def _obey(self, instruction: Instruction) -> bool:
        """Carry out one instruction; return whether it was done."""
        match instruction.kind:
            case "session" | "trace" if instruction.name.startswith("go back"):
                self._host.go_back()
                return True
            case "session":
                await self._host.renew()
                return True
            case "trace":
                self._host.retrace(drop=instruction.name.startswith("drop"))
                return True
            case "whenever":
                self._always.append(instruction)
                return True
            case "answer":
                self._answer = str(self._filled(instruction.arguments)["text"])
                return True
        for argument in list(instruction.arguments.values()):
            if isinstance(argument, Contents):
                self._held[f"Contents_{id(argument)}"] = await self._text_of(
                    argument.tool, self._filled(argument.arguments)
                )
        given = self._filled(instruction.arguments)
        match instruction.kind:
            case "call":
                done, text = await self._call(instruction.name, given)
            case "list":
                done, text = await self._ask(f"{instruction.name}/list", {})
            case "resource":
                done, text = await self._ask("resources/read", {"uri": self._filled({"": instruction.name})[""]})
            case "subscribe":
                done, text = await self._subscribe(self._filled({"": instruction.name})[""])
            case "prompt":
                done, text = await self._ask("prompts/get", {"name": instruction.name, "arguments": given})
            case "complete":
                ((name, value),) = given.items()
                asked = {"ref": {"type": "ref/prompt", "name": instruction.name}}
                done, text = await self._ask(
                    "completion/complete", {**asked, "argument": {"name": name, "value": value}}
                )
            case _:
                done, text = await self._call("run_code", {"code": self._filled({"": instruction.name})[""]})
        # A model remembers the text of an error as well.
        if instruction.remember is not None:
            self._held[instruction.remember] = text
        return done

    async def _text_of(self, tool: str, given: Json) -> str:
        return (await self._call(tool, given))[1]

    async def _call(self, tool: str, given: Json) -> tuple[bool, str]:
        for change in self._always:
            if change.name == tool:
                given = {**given, **self._filled(change.arguments)}
        if self._session_per_call:
            await self._host.renew()
        if self._expose == "all" or tool in ("run_code", "search_tools", "describe_tools", "list_servers"):
            return await self._ask("tools/call", {"name": tool, "arguments": given})
        return await self._ask("tools/call", {"name": "call_tool", "arguments": {"name": tool, "arguments": given}})

    async def _ask(self, method: str, params: Json) -> tuple[bool, str]:
        """Send a request, and read what comes back with all its pages; return whether it was done, and the text."""
        self.calls += 1
        answer = await self._host.ask(method, params)
        error = answer.get("error", {})
        if method == "tools/call" and error.get("code") == _UNKNOWN and params["name"] != "call_tool":
            # A host knows no such tool; the model falls back to the meta tool, which forgives other spellings.
            answer = await self._host.ask(method, {"name": "call_tool", "arguments": params})
        result = answer.get("result")
        if result is None:
            self.refused += 1
            text = json.dumps(answer["error"], ensure_ascii=False)
            await self.read(_plain(text))
            return False, text
        done = not result.get("isError", False) and result.get("resultType", "complete") == "complete"
        self.refused += not done
        text = "\n".join(_texts(result))
        whole = "\n".join([text, *[page async for page in self._pages(text)]])
        await self.read(whole)
        return done, whole

    async def _subscribe(self, uri: str) -> tuple[bool, str]:
        self.calls += 1
        answer = await self._host.subscribe(uri)
        self.refused += "error" in answer
        return "error" not in answer, json.dumps(answer, ensure_ascii=False)

    async def _pages(self, shown: str) -> AsyncIterator[str]:
        """Yield the rest of a large result, page by page."""
        further = _READ_ON.search(shown)
        place: Json | None = None if further is None else json.loads(further[1])
        for _ in range(_PAGES):
            if place is None:
                return
            page = await self._host.ask("tools/call", {"name": "read_result", "arguments": place})
            text = "\n".join(_texts(page.get("result", {})))
            yield text
            following = _NEXT_PAGE.search(text)
            place = None if following is None else {**place, "offset": int(following[1])}

    async def _question(self, method: str, params: Json) -> Json:
        """Answer a question of the gateway or of a server, in place of the person or as the model."""
        if method == "sampling/createMessage":
            for message in params["messages"]:
                self._held["QUESTION"] = "\n".join(_sentences(message["content"]))
                await self.read(self._held["QUESTION"])
            text = {"type": "text", "text": self._answer}
            return {"role": "assistant", "model": "scripted", "stopReason": "endTurn", "content": text}
        assert self._person is not None
        return self._person.answer(params)

    def _filled(self, given: Mapping[str, Any]) -> Json:
        """Return arguments in which the texts that are remembered stand for their names."""
        return {name: self._value(value) for name, value in given.items()}

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return _PLACEHOLDER.sub(self._held_text, value)
        if isinstance(value, Contents):
            return self._held.get(f"Contents_{id(value)}", "")
        if isinstance(value, dict):
            return self._filled(value)
        return [self._value(one) for one in value] if isinstance(value, list) else value

    def _held_text(self, placeholder: "re.Match[str]") -> str:
        names = (placeholder["names"] or "").split()
        if not set(names) <= ENCODINGS.keys():
            return placeholder[0]
        return encode(self._held.get(placeholder["name"], ""), names)


def _texts(result: Mapping[str, Any]) -> list[str]:
    """Return all that a model reads of a result."""
    found = [json.dumps(result["structuredContent"], ensure_ascii=False)] if "structuredContent" in result else []
    found += result.get("completion", {}).get("values", ())
    found += [json.dumps(item, ensure_ascii=False) for kind in _LISTED for item in result.get(kind, ())]
    blocks = [*result.get("content", ()), *result.get("contents", ())]
    blocks += [message["content"] for message in result.get("messages", ())]
    for block in blocks:
        found += _sentences(block)
    return [_plain(text) for text in found]


def _sentences(item: Any) -> list[str]:
    """Return the texts in a block or a definition, however deep."""
    if isinstance(item, dict):
        own = [value for key, value in item.items() if key in ("text", *_WORDS) and isinstance(value, str)]
        return own + [text for value in item.values() if isinstance(value, dict | list) for text in _sentences(value)]
    return [text for one in item for text in _sentences(one)] if isinstance(item, list) else []


def _plain(text: str) -> str:
    """Return a text whose quotes a server or the gateway has escaped, as a model reads it."""
    return text.replace('\\"', '"').replace("\\n", "\n") if '\\"' in text else text
