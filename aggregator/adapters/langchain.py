"""One agent's tools as LangChain tools, in this process: `async with open_tools("aggregator.json") as tools: ...`.

A call goes the aggregator's whole road; LangChain itself checks nothing, since the schema is given as JSON Schema.
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
from aggregator.adapters.inlined import grows_beyond
from aggregator.adapters.inprocess import Elicit, InProcessHost, ListedTools, Source, open_inside, with_properties
from aggregator.adapters.offered import OfferedTools
from aggregator.catalog.describe.compact_schema import examples
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import RpcError
from aggregator.domain.names import Style

log = logging.getLogger(__name__)

PROGRESS_EVENT: Final = "mcp_progress"
# Of 1,216 real tools the largest has 1,900 values once its references are put in place.
_INLINED_LIMIT: Final = 20_000


class ToolFailed(ToolException):
    """The tool answered with an error, or was not called at all; `result` is the MCP result that says so."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__(text_of(result))
        self.result = result


# The failures of the tool runs under way here: LangChain has no way to hand on more than their text.
_failures: Final[ContextVar[list[ToolFailed]]] = ContextVar("failures")


def told(failure: ToolException) -> Content:
    """What becomes of a failure unless `handle_tool_error` is set otherwise: content a model can act on."""
    if not isinstance(failure, ToolFailed):
        raise failure
    _failures.get([]).append(failure)
    return content_of(failure.result)


class LangChainTool(BaseTool):
    """One tool of the agent's. The message of a call has the whole MCP result as its artifact, errors included.

    `metadata` says where it comes from: `source` (`local`: a server in this process, `mcp`: any other, `aggregator`:
    a tool of its own), `server`, `canonical_name`, `schema_version`; the server's own `annotations`; and `examples` of
    arguments, where the schema has any.
    """

    _inside: InProcessHost = PrivateAttr()
    _offer: ListedTools = PrivateAttr()
    _elicit: Elicit | None = PrivateAttr()

    def __init__(self, inside: InProcessHost, offer: ListedTools, elicit: Elicit | None) -> None:
        definition = offer.definition
        super().__init__(
            name=definition["name"],
            description=definition.get("description") or definition.get("title") or "",
            args_schema=offer.schema,
            metadata=_origin(offer),
            response_format="content_and_artifact",
            handle_tool_error=told,
        )
        self._inside, self._offer, self._elicit = inside, offer, elicit

    @property
    def definition(self) -> Mapping[str, Any]:
        """The tool as MCP has it: `title`, `outputSchema`, `_meta` and all."""
        return self._offer.definition

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As in LangChain; a failure's message has its artifact too."""
        with _failing() as failures:
            return _with_artifact(super().run(*args, **kwargs), failures)

    async def arun(self, *args: Any, **kwargs: Any) -> Any:
        """As in LangChain; a failure's message has its artifact too."""
        with _failing() as failures:
            return _with_artifact(await super().arun(*args, **kwargs), failures)

    def _run(self, /, *args: Any, **arguments: Any) -> tuple[Content, dict[str, Any]]:
        return self._inside.from_thread(self._arun(*args, **arguments))

    # Positional-only and without names of LangChain's own: any name may be that of an argument, `config` too.
    async def _arun(self, /, *args: Any, **arguments: Any) -> tuple[Content, dict[str, Any]]:
        config = ensure_config()
        thread = config.get("configurable", {}).get("thread_id")
        conversation = str(thread) if thread is not None else None
        heard = _Progress(self.name) if getattr(config.get("callbacks"), "handlers", None) else None
        async with Tasks(f"the call of {self.name}") as tasks:
            telling = tasks.start(heard.tell()) if heard is not None else None
            try:
                # The program may have given the tool another name.
                name = self.definition["name"]
                result = await self._inside.call(
                    name, arguments, conversation=conversation, elicit=self._elicit, heard=heard
                )
            except RpcError as error:
                result = as_result(error)
            if heard is not None and telling is not None:
                heard.end()
                await asyncio.wait([telling])
        if result.get("isError") is True:
            raise ToolFailed(result)
        return content_of(result), result


class LangChainTools(OfferedTools[BaseTool]):
    """The tools an agent may call, as an ordinary list: add your own, bind them, hand them to an agent."""

    def offer_of(self, tool: BaseTool) -> ListedTools | None:
        """Return the offer behind a tool; None for a tool that the program added itself."""
        return tool._offer if isinstance(tool, LangChainTool) else None

    def made(self, offer: ListedTools) -> BaseTool | None:
        """The tool of an offer; None for one that LangChain cannot read."""
        return _made(self.inside, offer, self.elicit)


@asynccontextmanager
async def open_tools(
    path: Source = None,
    *,
    agent: str | None = None,
    names: Style = "compatible",
    elicit: Elicit | None = None,
) -> AsyncIterator[LangChainTools]:
    """The tools of one agent, callable as long as the context is open; its servers run, or are connected, meanwhile.

    `path` is the configuration or its file (without one it is looked for where `aggregator` looks), `agent` the agent
    of the policy files (else `AGGREGATOR_AGENT`, else `local`). `elicit` puts a form to a person, for tools the policy
    wants confirmed: the params of `elicitation/create` in, its result out. Without it, no person can be asked.

    Raises:
        OperatorError: the configuration cannot be read, or that cannot be the name of an agent.
    """
    async with open_inside(path, agent, names) as inside:
        tools = LangChainTools(inside, elicit)
        await tools.refresh()
        yield tools


class _Progress:
    """Tells of progress by custom events. What comes while one is being told waits; of those only the latest counts."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._latest: dict[str, Any] | None = None
        self._ended = False
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, params: dict[str, Any]) -> None:
        """Progress was heard, in the gateway's loop; the caller's may have ended meanwhile."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, params)

    def _take(self, params: dict[str, Any]) -> None:
        self._latest = params
        self._news.set()

    def end(self) -> None:
        """Nothing more will be heard."""
        self._ended = True
        self._news.set()

    async def tell(self) -> None:
        """Pass on what comes, until the end."""
        while self._latest is not None or not self._ended:
            await self._news.wait()
            self._news.clear()
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


def _made(inside: InProcessHost, offer: ListedTools, elicit: Elicit | None) -> LangChainTool | None:
    """The tool; None for one that would keep LangChain from binding all the others."""
    tool = LangChainTool(inside, offer, elicit)
    problem = _unreadable(tool)
    if problem is None:
        return tool
    # What a policy adds may have references of its own; it is enforced whether or not it is shown.
    if offer.record is not None and offer.record.definition["inputSchema"] != offer.definition["inputSchema"]:
        tool.args_schema = with_properties(offer.record.definition["inputSchema"])
        if _unreadable(tool) is None:
            log.warning("%s is shown without what the policy adds to its schema: %s", tool.name, problem)
            return tool
    log.warning("%s is left out: %s", tool.name, problem)
    return None


def _unreadable(tool: LangChainTool) -> str | None:
    """Why LangChain cannot give this tool to a model, if it cannot."""
    assert isinstance(tool.args_schema, dict)
    if grows_beyond(tool.args_schema, _INLINED_LIMIT):
        return "with its references in place its schema is too large"
    try:
        convert_to_openai_tool(tool)
    except Exception as error:
        return f"LangChain cannot read its schema: {error!r}"
    return None


def _origin(offer: ListedTools) -> dict[str, Any]:
    definition, record = offer.definition, offer.record
    origin: dict[str, Any] = {"source": offer.source}
    if record is not None:
        origin |= {"server": record.server, "canonical_name": record.name, "schema_version": record.version}
    origin["annotations"] = dict(definition.get("annotations") or {})
    usage = examples(definition["inputSchema"])
    return origin | {"examples": usage} if usage else origin
