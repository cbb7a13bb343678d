"""The meta tool `report_tool`: tells the operators that a tool is broken."""

from typing import Final

from aggregator.catalog.describe.levels import shown_name
from aggregator.domain.errors import BadArguments, CallRefused, UnknownTool, UpstreamError
from aggregator.gateway.meta.name_resolution import WrittenNames, several
from aggregator.gateway.meta.tool import MetaTool, MetaToolCall, meta_record
from aggregator.tool_reports.book import REPORT_TOOL, NotReportable

RECORD: Final = meta_record(
    REPORT_TOOL,
    "Tell the operators that a tool is broken or its description wrong",
    {"name": {"type": "string"}, "why": {"type": "string"}},
    ("name", "why"),
    reads=False,
)


async def report_tool(asking: MetaToolCall) -> str:
    """Report a tool that the agent may see; return a sentence.

    Raises:
        BadArguments: the name fits no tool of the agent, or several; or the reason says nothing.
        NotReportable: the agent may not call the tool, or nothing serves it now.
        OverLimit, NotKept: it was not kept.
    """
    name = asking.arguments["name"]
    names = WrittenNames(asking.finder, asking.resolver, asking.view)
    meant = await names.read(name)
    if len(meant.tools) > 1:
        raise several(REPORT_TOOL, name, meant.tools)
    try:
        tool = await asking.resolver.resolve(asking.view, meant.name, "canonical", to_call=False)
        if tool.only_for_apps:
            raise UnknownTool(name, [])
    except UnknownTool as error:
        raise BadArguments(REPORT_TOOL, names.server(name) or error.message) from None
    except (CallRefused, UpstreamError) as error:
        # Not as it is: the audit would count it as a refused call of that tool.
        raise NotReportable(REPORT_TOOL, error.message) from None
    times = await asking.reports.take(asking.call.principal.agent_id, tool, asking.arguments["why"])
    again = f" ({times} reports by you)" if times > 1 else ""
    return f"Reported to the operators: {shown_name(tool)}{again}. It is not mended yet; go on without it."


TOOL: Final = MetaTool(RECORD, report_tool)
