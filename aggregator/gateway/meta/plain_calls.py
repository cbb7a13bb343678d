"""Calls of `call_tool` and `read_tool` in the form of their schema, for a tool that the agent sees by the written name:
they mean one call, which can be found without a wait.

Law: what is found here is what `MetaTools.call` finds. Every other call is left to it.
"""

from typing import Any, Final

from aggregator.code.programs import RUN_CODE
from aggregator.domain.records import ToolRecord
from aggregator.gateway.calls.direct import InnerCall
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.meta.call_tool import CALL, READ
from aggregator.gateway.meta.name_resolution import may_be_written_for
from aggregator.gateway.meta.registry import MetaToolSet
from aggregator.gateway.views.views import View
from aggregator.skills.finder import SKILL

_MEMBERS: Final = frozenset({"name", "arguments"})


class PlainCalls:
    """The calls in other calls that need no task to be found: see `InnerCalls`."""

    def __init__(self, tools: MetaToolSet, resolver: Resolver) -> None:
        self._resolver = resolver
        # `run_code` is one too, where programs are allowed.
        self._own = frozenset({*tools.names, RUN_CODE})
        self.names = self._own & {CALL, READ}
        self.answering = frozenset(tools.names) - self.names

    def inner(self, params: dict[str, Any]) -> InnerCall | None:
        """See `InnerCalls`."""
        given = params.get("arguments")
        if type(given) is not dict or not _MEMBERS.issuperset(given):
            return None
        name, arguments = given.get("name"), given.get("arguments")
        if type(name) is not str or not name:
            return None
        if arguments is None:
            return name, {}
        return (name, arguments) if type(arguments) is dict else None

    def tool(self, view: View, outer: str, name: str) -> ToolRecord | None:
        """See `InnerCalls`."""
        if self._may_be_ours(name):
            return None
        tool = self._resolver.called(view, name)
        if tool is None or tool.only_for_apps or self._may_be_ours(tool.name):
            return None
        # The call goes on under this name, and is resolved again.
        if self._resolver.called(view, tool.name) is not tool:
            return None
        return tool if outer != READ or view.read_only(tool) else None

    def _may_be_ours(self, name: str) -> bool:
        """Tell whether a name may mean a skill or a meta tool."""
        return name.startswith(SKILL) or may_be_written_for(name, self._own)
