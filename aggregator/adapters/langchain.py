"""One agent's tools as LangChain tools, in this process: `async with open_tools("aggregator.json") as tools: ...`.

A call goes through every step of a call; LangChain itself validates nothing, since the schema is a JSON Schema.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

from langchain_core.callbacks import adispatch_custom_event
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from aggregator.adapters.content import Content, as_result, content_of, text_of
from aggregator.adapters.inprocess import Elicit, InProcessHost, ListedTool, Source, open_inside, with_properties
from aggregator.adapters.offered import OfferedTools
from aggregator.catalog.describe.compact_schema import examples
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import RpcError
from aggregator.domain.names import Style
from aggregator.schemas.structure.local import at_pointer

log = logging.getLogger(__name__)

PROGRESS_EVENT: Final = "mcp_progress"
# Of 1,216 real tools the largest has 1,900 values once its references are put in place.
_INLINED_LIMIT: Final = 20_000


class ToolFailed(ToolException):
    """An error of a tool, or the refusal of a call; `result` is the MCP result."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__(text_of(result))
        self.result = result


# The failures of the running tools, which LangChain reduces to their text.
_failures: Final[ContextVar[list[ToolFailed]]] = ContextVar("failures")


def content_of_failure(failure: ToolException) -> Content:
    """Return content that a model can act on for a failure; the default of `handle_tool_error`."""
    if not isinstance(failure, ToolFailed):
        raise failure
    _failures.get([]).append(failure)
    return content_of(failure.result)


class LangChainTool(BaseTool):
    """One LangChain tool. The message of a call has the whole MCP result as its artifact, also for an error.

    `metadata` has the origin of the tool: `source` (`local`: a server in this process, `mcp`: any other, `aggregator`:
    a meta tool), `server`, `canonical_name`, `schema_version`; the server's own `annotations`; and `examples` of
    arguments, if the schema has any.
    """

    _inside: InProcessHost = PrivateAttr()
    _offer: ListedTool = PrivateAttr()
    _elicit: Elicit | None = PrivateAttr()

    def __init__(self, inside: InProcessHost, offer: ListedTool, elicit: Elicit | None) -> None:
        definition = offer.definition
        super().__init__(
            name=definition["name"],
            description=definition.get("description") or definition.get("title") or "",
            args_schema=offer.schema,
            metadata=_origin(offer),
            response_format="content_and_artifact",
            handle_tool_error=content_of_failure,
        )
        self._inside, self._offer, self._elicit = inside, offer, elicit

    @property
    def definition(self) -> Mapping[str, Any]:
        """The whole tool as MCP has it, with `title`, `outputSchema` and `_meta`."""
        return self._offer.definition

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the tool like LangChain's; the message of a failure has its artifact, too."""
        with _failing() as failures:
            return _with_artifact(super().run(*args, **kwargs), failures)

    async def arun(self, *args: Any, **kwargs: Any) -> Any:
        """Run the tool like LangChain's; the message of a failure has its artifact, too."""
        with _failing() as failures:
            return _with_artifact(await super().arun(*args, **kwargs), failures)

    def _run(self, /, *args: Any, **arguments: Any) -> tuple[Content, dict[str, Any]]:
        return self._inside.from_thread(self._arun(*args, **arguments))

    # Positional-only and without LangChain's own parameter names: an argument may have any name, `config` too.
    async def _arun(self, /, *args: Any, **arguments: Any) -> tuple[Content, dict[str, Any]]:
        config = ensure_config()
        thread = config.get("configurable", {}).get("thread_id")
        conversation = str(thread) if thread is not None else None
        progress = _Progress(self.name) if getattr(config.get("callbacks"), "handlers", None) else None
        async with Tasks(f"the call of {self.name}") as tasks:
            dispatching = tasks.start(progress.run()) if progress is not None else None
            try:
                # The program may have given the tool another name.
                name = self.definition["name"]
                result = await self._inside.call(
                    name, arguments, conversation=conversation, elicit=self._elicit, progress=progress
                )
            except RpcError as error:
                result = as_result(error)
            if progress is not None and dispatching is not None:
                progress.end()
                await asyncio.wait([dispatching])
        if result.get("isError") is True:
            raise ToolFailed(result)
        return content_of(result), result


class LangChainTools(OfferedTools[BaseTool]):
    """The tools of an agent as an ordinary list, to which a program may add its own."""

    def offer_of(self, tool: BaseTool) -> ListedTool | None:
        """Return the offer behind a tool; None for a tool that the program added itself."""
        return tool._offer if isinstance(tool, LangChainTool) else None

    def made(self, offer: ListedTool) -> BaseTool | None:
        """Return the LangChain tool of a listed tool; None for one that LangChain cannot read."""
        return _made(self.inside, offer, self.elicit)


@asynccontextmanager
async def open_tools(
    path: Source = None,
    *,
    agent: str | None = None,
    names: Style = "compatible",
    elicit: Elicit | None = None,
) -> AsyncIterator[LangChainTools]:
    """Run the gateway as long as the context is open, and give the tools of one agent.

    `path` is the configuration or its file (without one, the file that the command `aggregator` would use), `agent` the
    agent of the policy files (else `AGGREGATOR_AGENT`, else `local`). `elicit` shows a form to the user, for tools that
    need confirmation; without it they cannot be confirmed.

    Raises:
        OperatorError: the configuration cannot be read, or the agent's name is invalid.
    """
    async with open_inside(path, agent, names) as inside:
        tools = LangChainTools(inside, elicit)
        await tools.refresh()
        yield tools


class _Progress:
    """A dispatcher of progress as custom events; while one is dispatched, only the latest further one is kept."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._latest: dict[str, Any] | None = None
        self._ended = False
        self._more = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, params: dict[str, Any]) -> None:
        """Take progress in the gateway's loop; the caller's loop may have ended already."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, params)

    def _take(self, params: dict[str, Any]) -> None:
        self._latest = params
        self._more.set()

    def end(self) -> None:
        """End the dispatcher once everything is dispatched."""
        self._ended = True
        self._more.set()

    async def run(self) -> None:
        """Dispatch progress until the end."""
        while self._latest is not None or not self._ended:
            await self._more.wait()
            self._more.clear()
            latest, self._latest = self._latest, None
            if latest is not None:
                await adispatch_custom_event(PROGRESS_EVENT, {"tool": self._tool, **latest})


@contextmanager
def _failing() -> Iterator[list[ToolFailed]]:
    failures: list[ToolFailed] = []
    token = _failures.set(failures)
    try:
        yield failures
    finally:
        _failures.reset(token)


def _with_artifact(output: Any, failures: list[ToolFailed]) -> Any:
    if failures and isinstance(output, ToolMessage):
        output.artifact = failures[0].result
    return output


def _made(inside: InProcessHost, offer: ListedTool, elicit: Elicit | None) -> LangChainTool | None:
    """Return the tool; None for one that would keep LangChain from binding all others."""
    tool = LangChainTool(inside, offer, elicit)
    problem = _unreadable(tool)
    if problem is None:
        return tool
    # The policy's part of the schema may have its own references; it is enforced even if it is not shown.
    if offer.record is not None and offer.record.definition["inputSchema"] != offer.definition["inputSchema"]:
        tool.args_schema = with_properties(offer.record.definition["inputSchema"])
        if _unreadable(tool) is None:
            log.warning("%s is shown without what the policy adds to its schema: %s", tool.name, problem)
            return tool
    log.warning("%s is left out: %s", tool.name, problem)
    return None


def _unreadable(tool: LangChainTool) -> str | None:
    """Return why LangChain cannot give this tool to a model; None if it can."""
    assert isinstance(tool.args_schema, dict)
    if grows_beyond(tool.args_schema, _INLINED_LIMIT):
        return "with its references in place its schema is too large"
    try:
        convert_to_openai_tool(tool)
    except Exception as error:
        return f"LangChain cannot read its schema: {error!r}"
    return None


def _origin(offer: ListedTool) -> dict[str, Any]:
    definition, record = offer.definition, offer.record
    origin: dict[str, Any] = {"source": offer.source}
    if record is not None:
        origin |= {"server": record.server, "canonical_name": record.name, "schema_version": record.version}
    origin["annotations"] = dict(definition.get("annotations") or {})
    usage = examples(definition["inputSchema"])
    return origin | {"examples": usage} if usage else origin


def grows_beyond(schema: Mapping[str, Any], limit: int) -> bool:
    """Return whether the schema has more than `limit` values once every reference is replaced by its target.

    Loops end if a reference meets itself. A few definitions that name each other twice are enough for 2^n values.
    """
    stack: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    seen = 0
    while stack:
        node, inside = stack.pop()
        seen += 1
        if isinstance(node, list):
            stack.extend((part, inside) for part in node)
        elif isinstance(node, Mapping):
            stack.extend((part, inside) for part in node.values())
            reference = node.get("$ref")
            if isinstance(reference, str) and reference not in inside:
                stack.append((at_pointer(schema, reference), inside | {reference}))
        if seen + len(stack) > limit:
            return True
    return False
