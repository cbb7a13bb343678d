"""Calls of `call_tool` and `read_tool` whose tool and arguments can be found without a wait, in any spelling.

Law: what is found here is what `MetaTools.call` finds. Every other call is left to it.
"""

from typing import Any, Final

from aggregator.code.programs import RUN_CODE
from aggregator.domain.errors import BadArguments
from aggregator.domain.records import ToolRecord
from aggregator.gateway.calls.direct import InnerCall, KeptAnswer
from aggregator.gateway.calls.plan import WrittenTool
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.meta.call_tool import (
    CALL,
    READ,
    SERVERS,
    meant_on_server,
    members_of,
    on_server,
    read_object,
)
from aggregator.gateway.meta.kept_answers import KEPT, KeptAnswers
from aggregator.gateway.meta.name_resolution import WrittenNames, may_be_written_for
from aggregator.gateway.meta.registry import MetaToolSet
from aggregator.gateway.views.finder import Finder
from aggregator.gateway.views.views import View
from aggregator.skills.finder import SKILL
from aggregator.upstream.supervisor import Supervisor

_MEMBERS: Final = frozenset({"name", "arguments"})
_WITH_SERVER: Final = frozenset({*_MEMBERS, *SERVERS})
# Characters of the words for a tool whose plan is kept, unless they are its name as it is listed.
_LONGEST: Final = 300


class PlainCalls:
    """The calls in other calls that need no task to be found: see `InnerCalls`."""

    def __init__(
        self, tools: MetaToolSet, finder: Finder, resolver: Resolver, supervisor: Supervisor, kept: KeptAnswers
    ) -> None:
        self._kept_answers = kept
        self._finder = finder
        self._resolver = resolver
        self._supervisor = supervisor
        # `run_code` is one too, where programs are allowed.
        self._own = frozenset({*tools.names, RUN_CODE})
        self.names = self._own & {CALL, READ}
        self.answering = frozenset(tools.names) - self.names
        self.kept = self.answering & KEPT
        # The snapshots behind `_same_reading`.
        self._of_moment: object = None
        self._of_resources: object = None
        self._of_held: object = None
        self._same_reading = object()

    def inner(self, params: dict[str, Any]) -> InnerCall | None:
        """See `InnerCalls`."""
        given = params.get("arguments")
        try:
            if type(given) is not dict or "name" not in given or not _MEMBERS.issuperset(given):
                given = members_of(params)
                if not _WITH_SERVER.issuperset(given):
                    return None
            name, arguments = given.get("name"), given.get("arguments")
            if type(name) is not str or not name:
                return None
            if type(arguments) is not dict:
                arguments = read_object(name, arguments)
        except BadArguments:
            return None
        if len(given) <= 2 and _MEMBERS.issuperset(given):
            return name, arguments
        return _beside(name, given, arguments)

    def tool(self, view: View, outer: str, written: WrittenTool) -> tuple[ToolRecord, object] | None:
        """See `InnerCalls`."""
        listed = self._resolver.called(view, written) if type(written) is str else None
        if listed is None and sum(map(len, (written,) if type(written) is str else written)) > _LONGEST:
            return None
        reading = self._reading() if listed is None else None
        tool = self._read(WrittenNames(self._finder, self._resolver, view), written)
        if tool is None or self._may_be_ours(tool.name):
            return None
        # The call goes on under this name, and is resolved again.
        if self._resolver.called(view, tool.name) is not tool:
            return None
        return (tool, reading) if outer != READ or view.read_only(tool) else None

    def kept_answer(self, view: View, params: dict[str, Any]) -> KeptAnswer | None:
        """See `InnerCalls`."""
        return self._kept_answers.find(view, params["name"], params.get("arguments"))

    def holds(self, reading: object) -> bool:
        """See `InnerCalls`."""
        return reading is self._reading()

    def _read(self, names: WrittenNames, written: WrittenTool) -> ToolRecord | None:
        """Return the only tool that words may stand for, if it can be found without a wait."""
        name = written if isinstance(written, str) else written[0]
        if self._may_be_ours(name):
            return None
        meant = names.read_now(name)
        if meant is None or isinstance(written, str):
            return meant.tools[0] if meant is not None and len(meant.tools) == 1 else None
        _, member, server = written
        whole_name = on_server(server, name)
        whole = names.read_now(whole_name) if not self._may_be_ours(whole_name) else None
        return meant_on_server(server, member, whole, meant) if whole is not None else None

    def _may_be_ours(self, name: str) -> bool:
        """Tell whether a name may mean a skill or a meta tool."""
        return name.startswith(SKILL) or may_be_written_for(name, self._own)

    def _reading(self) -> object:
        """Return a token for the inputs of spelled names besides the catalog and the policies: the servers, their
        states and the held items. If an input changes, the token is another object.
        """
        moment, current = self._supervisor.moment, self._resolver.current
        resources, held = current.resources, current.held
        if moment is not self._of_moment or resources is not self._of_resources or held is not self._of_held:
            self._of_moment, self._of_resources, self._of_held = moment, resources, held
            self._same_reading = object()
        return self._same_reading


def _beside(name: str, given: dict[str, Any], arguments: dict[str, Any]) -> InnerCall | None:
    """Return a call with the server of the tool beside its name."""
    members = [member for member in SERVERS if member in given]
    server = given[members[0]]
    if len(members) != 1 or type(server) is not str or not server:
        return None
    return (name, members[0], server), arguments
