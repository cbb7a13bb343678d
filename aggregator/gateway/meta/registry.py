"""Every meta tool in the order of the list, and the calls of meta tools."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final

from aggregator.code.programs import RUN_CODE, RunPrograms
from aggregator.config.server_config import ServerConfig
from aggregator.dialects.gateway import Dialects
from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import ERROR_META_KEY, BadArguments, UnknownTool
from aggregator.domain.records import ToolRecord
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.calls.direct import KeptAnswer
from aggregator.gateway.calls.pipeline import Pipeline
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.host import Host
from aggregator.gateway.meta.argument_aliases import in_form
from aggregator.gateway.meta.call_tool import CALL, READ, ReadName, inner, members
from aggregator.gateway.meta.kept_answers import KEPT, KeptAnswers
from aggregator.gateway.meta.name_resolution import ResolvedTools, WrittenNames, may_be_written_for
from aggregator.gateway.meta.tool import SOURCE, MetaTool, MetaToolCall
from aggregator.gateway.recording.timing import name_tool, timed
from aggregator.gateway.views.finder import Finder
from aggregator.gateway.views.first_steps import first_steps
from aggregator.gateway.views.views import View
from aggregator.results.kept_reads import KeptReads
from aggregator.results.meta_tool import READ_RESULT, without_handle
from aggregator.results.meta_tool import TOOL as READ_RESULT_TOOL
from aggregator.skills.finder import SKILL, as_tool
from aggregator.skills.meta_tools import SkillReader
from aggregator.tool_reports.book import REPORT_TOOL, ReportBook
from aggregator.wire.peer import Channel

log = logging.getLogger(__name__)

# The names of the meta tools in the order of the list; READ and REPORT_TOOL, which follow, are there only if the
# configuration says so, and READ_RESULT only with a database to keep results in.
META_TOOLS: Final = ("search_tools", "describe_tools", CALL, "list_servers", "match_intent", READ_RESULT)
# Called by applications, which know its name: a list that a model reads has no use for it.
UNLISTED: Final = frozenset({"match_intent"})

# Models send numbers as strings, and one name in place of a list.
_CONFIG: Final = ServerConfig(id=SOURCE, key=SOURCE, prefix=SOURCE, type="local")
# Calls nested in calls are reduced to the innermost, up to this depth.
_NESTED: Final = 3


def load_meta_tools() -> Mapping[str, MetaTool]:
    """Import the meta tools of the list and return them by name; this takes some 50 ms, which no start waits for."""
    from aggregator.gateway.meta import call_tool, describe_tools, list_servers, search_tools
    from aggregator.intent import meta_tool as match_intent
    from aggregator.tool_reports import meta_tool as report_tool

    tools = (search_tools.TOOL, describe_tools.TOOL, call_tool.TOOL, list_servers.TOOL, match_intent.TOOL)
    optional = (READ_RESULT_TOOL, call_tool.READ_TOOL, report_tool.TOOL)
    return {tool.record.own_name: tool for tool in (*tools, *optional)}


class MetaToolSet:
    """The configured meta tools. Their definitions are imported when they are first needed."""

    def __init__(
        self,
        *,
        read_tool: bool,
        report_tool: bool = False,
        keeps_results: bool,
        left_out: frozenset[str] = frozenset(),
    ) -> None:
        names = (*META_TOOLS, *([READ] if read_tool else []), *([REPORT_TOOL] if report_tool else []))
        self.keeps_results = keeps_results
        hidden = left_out if keeps_results else left_out | {READ_RESULT}
        self.names = tuple(name for name in names if name not in hidden)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.names

    def load(self) -> None:
        """Load the definitions ahead of the first request."""
        assert self.records

    def __getitem__(self, name: str) -> MetaTool:
        return self._run_code if name == RUN_CODE else self._tools[name]

    def get(self, name: str) -> MetaTool | None:
        """Return the meta tool of a name, or None."""
        return self._tools.get(name)

    @cached_property
    def records(self) -> tuple[ToolRecord, ...]:
        """The records of the meta tools that are listed, in the order of the list."""
        return tuple(tool.record for name, tool in self._tools.items() if name not in UNLISTED)

    @cached_property
    def _run_code(self) -> MetaTool:
        from aggregator.code.meta_tool import TOOL

        return TOOL

    @cached_property
    def _tools(self) -> Mapping[str, MetaTool]:
        tools = load_meta_tools()
        return {name: tools[name] for name in self.names}


class MetaTools:
    """The configured meta tools. They see and call only tools that the agent itself may call."""

    def __init__(
        self,
        tools: MetaToolSet,
        finder: Finder,
        resolver: Resolver,
        pipeline: Pipeline,
        call_log: CallLog,
        programs: RunPrograms,
        skill_reader: SkillReader,
        dialects: Dialects | None,
        reports: ReportBook,
        kept_answers: KeptAnswers,
    ) -> None:
        self._kept_answers = kept_answers
        self._dialects = dialects
        self._reports = reports
        self._skill_reader = skill_reader
        self._tools = tools
        self._finder = finder
        self._resolver = resolver
        self._pipeline = pipeline
        self._call_log = call_log
        self.programs = programs
        self._kept_reads = KeptReads(pipeline.hooks, resolver.current)
        self._checker = pipeline.checker
        self._keeper = pipeline.large_results.keeper

    async def call(
        self, call: ToolCall, view: View, host: Host, channel: Channel, *, programs: bool = False
    ) -> dict[str, Any]:
        """Return the answer of a meta tool, or the unchanged answer of the tool it calls. Either is recorded as one
        call. `programs`: the agent may call `run_code`.

        Raises:
            UpstreamRpcError: the inner tool's upstream answered with a protocol error.
        """
        outer = call.name
        try:
            for _ in range(_NESTED):
                name = call.name
                if name == RUN_CODE and (programs or call.within is not None):
                    return await self._call_meta_tool(self._tools[RUN_CODE], call, view, host, channel)
                tool = self._tools.get(name)
                skills = self._finder.skills
                skill = await skills.named(view, name) if call.via is not None else None
                if skill is None and call.via is not None:
                    skill = skills.held(view, name)
                if skill is not None:
                    return await self._skill_reader.read(skill, call, view, host, channel)
                if tool is None:
                    return await self._call_inner(call, view, host, channel)
                if tool.answer is not None:
                    return await self._call_meta_tool(tool, call, view, host, channel)
                params, asked = await inner(call.params, self._reader(view))
                reads = name == READ or call.only_reads
                call = call._replace(params=params, via=call.via or outer, only_reads=reads, asked=asked)
            raise BadArguments(outer, f"{outer} was asked to call itself, again and again.")
        except BadArguments as refused:
            async with self._call_log.record(call, host) as entry:
                await entry.wait_for_space()
                name_tool(entry.record, self._tools[outer].record)
                raise refused
            return entry.result

    def meant(self, view: View, name: str, *, programs: bool) -> str | None:
        """Return the tool of ours that a host calls by another name, as `mcp__aggregator__search_tools`; else None."""
        own = (*self._tools.names, RUN_CODE) if programs else self._tools.names
        if not may_be_written_for(name, own):
            return None
        if self._resolver.called(view, name) is not None:
            return None
        spelled = WrittenNames(self._finder, self._resolver, view).spellings(name)
        return next((one for one in spelled if one in own), None)

    def _reader(self, view: View) -> ReadName:
        """Return the function that reads the name of an inner call; a meta tool has only its own name."""
        names = WrittenNames(self._finder, self._resolver, view)

        async def read(name: str) -> ResolvedTools:
            # What a host calls a meta tool is never another tool: `mcp__aggregator__search_tools`.
            own = next((one for one in names.spellings(name) if one in self._tools), None)
            skill = await self._finder.skills.named(view, name)
            if skill is not None:
                return ResolvedTools(name, (as_tool(skill),))
            return ResolvedTools(own, (self._tools[own].record,)) if own is not None else await names.read(name)

        return read

    async def _call_inner(self, call: ToolCall, view: View, host: Host, channel: Channel) -> dict[str, Any]:
        """Call another tool, as the pipeline calls it for a host that names it itself."""
        try:
            return await self._pipeline.call_tool(call, view, host, channel)
        except UnknownTool as error:
            # The name is an argument here, which a model can correct (SEP-1303).
            details = {"code": "unknown_tool", "status": 404, "message": error.message, **error.data}
            said = WrittenNames(self._finder, self._resolver, view).server(call.name)
            near = await self._finder.skills.nearest(view, call.name) if call.name.startswith(SKILL) else []
            hint = f" Did you mean {' or '.join(near)}?" if near else " Find names with search_tools."
            text = said or f"{error.message}{hint}"
            return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": {ERROR_META_KEY: details}}

    async def _call_meta_tool(
        self, tool: MetaTool, call: ToolCall, view: View, host: Host, channel: Channel
    ) -> dict[str, Any]:
        async with self._call_log.record(call, host) as entry:
            entry.record.request_id = channel.request_id
            await entry.wait_for_space()
            entry.answer_with(await self._answer(tool, call, view, host, channel, entry.record))
        return entry.result

    async def _answer(
        self, tool: MetaTool, call: ToolCall, view: View, host: Host, channel: Channel, record: CallRecord
    ) -> dict[str, Any]:
        name_tool(record, tool.record)
        with timed(record, "check"):
            agent = call.principal.agent_id
            given = in_form(tool.record.own_name, tool.accepted.definition["inputSchema"], call.arguments)
            arguments, refusal, _ = await self._checker.arguments(
                _CONFIG, tool.accepted, given, (), agent, by_model=True
            )
        record.arguments = without_handle(arguments)
        if refusal is not None:
            return refusal
        _refuse_unknown(tool.accepted, arguments)
        if tool.answer is None:
            return await self.programs.answer(call, arguments, host, channel, record, self.call)
        note_kept = partial(self._kept_reads.note, view, host, record, call.within)
        moment, kept = self._kept_answers.moment(), False

        def keep() -> None:
            nonlocal kept
            kept = tool.record.own_name in KEPT and call.via is None and call.within is None

        asking = MetaToolCall(
            call, view, arguments, self._finder, self._resolver, self._keeper, note_kept, self._reports, keep
        )
        steps = "" if self._finder.configured else first_steps(at_machine=host.frontend == "stdio")
        dialect, every = view.dialect(host.dialect), view.lists_all(of_host=host.lists_all)
        asking = replace(asking, dialect=dialect, dialects=self._dialects, lists_all=every, first_steps=steps)
        text = await tool.answer(asking)
        result = {"content": [{"type": "text", "text": text}]}
        if kept:
            self._kept_answers.keep(
                moment, view, call.params.get("arguments"), KeptAnswer(tool.record, arguments, result)
            )
        return result


def _refuse_unknown(tool: ToolRecord, arguments: Mapping[str, Any]) -> None:
    """Refuse unknown arguments. The schema does not say so, since that would cost every list tokens.

    Raises:
        BadArguments: an argument is not known.
    """
    known = tool.definition["inputSchema"]["properties"]
    unknown = [name for name in arguments if name not in known]
    if unknown:
        takes = ", ".join(known) or "no arguments"
        raise BadArguments(tool.own_name, f"{tool.own_name} does not know {members(unknown)}: it takes {takes}.")
