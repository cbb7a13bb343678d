"""The plan of a call: its tool, upstream, ruling and check, and whether it can do without a task.

Both ways of a call run a `PreparedCall`: `Pipeline.call_tool` in a task, `DirectCalls.send_at_once` without one. This
module holds the only list of reasons for a task.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from aggregator.dialects.gateway import Dialects
from aggregator.dialects.mend.read_back import Reader
from aggregator.dialects.names import Schemas
from aggregator.domain.records import ToolRecord
from aggregator.gateway.calls.failover import Failover
from aggregator.gateway.calls.rate_limits import Counted
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.calls.validate import Checker, QuickCheck
from aggregator.gateway.hooks import CallHook, CallHooks, PermitAtOnce
from aggregator.gateway.host import Host
from aggregator.gateway.views.views import View, Views
from aggregator.policy.rulebook import Ruling
from aggregator.upstream.upstream import Upstream

# The frontend whose calls, like those of meta tools, come from a model and not from a host's own program.
OF_MODELS: Final = "v1"
# The words for a tool: its name, or its name with the member and the name of its server beside.
WrittenTool = str | tuple[str, str, str]
# A tool with a shorter time limit, in seconds, needs a task: without one, the limit could pass unnoticed.
_SHORTEST_LIMIT: Final = 1.0


class NeedsTask(StrEnum):
    """The reason why calls of a tool need a task."""

    DECISION = "the policy does not simply allow it"
    STANDS_IN = "it answers in place of another tool"
    HEADERS = "its arguments are sent as headers too"
    SHORT_LIMIT = "its time limit is short"
    SCHEMA = "a schema of it cannot be used"
    HOOK = "a feature has to look at it first"


class PreparedCall:
    """The plan of every call of one tool by one agent. It holds as long as its `terms` do (`CallPlans.holds`).

    called: the plan for the tool that the agent named, if this one stands in for it; else None.
    check: the part of the check that takes little time; None if a schema cannot be used.
    by_model: its calls come by a meta tool or over `/v1`, so that a model reads the results.
    config: the configuration of the server that the check belongs to.
    counted: the limits that each call is charged to; None if unknown, or if they differ from call to call.
    has_others: other tools may answer in its place.
    terms: stands for the snapshots that the plan depends on, so that an idle host keeps none of them alive.
    needs_task: why its calls need a task; None if they can do without.
    keeps_structured: its host expects structured results whole.
    hooks: the hooks that concern it. permits: what permits such calls without a task, one of each hook;
    empty until the first of them.
    reading: stands for what the words for the tool depend on; None if they are its name as it is listed.
    reader: the way back of arguments that are in the dialect of the host; None if they come as the server has them.
    extends: the time limit, if progress starts it anew; else None.
    via: the meta tool that the calls come by; else None.
    """

    __slots__ = (
        "by_model",
        "called",
        "check",
        "config",
        "counted",
        "extends",
        "has_others",
        "hooks",
        "keeps_structured",
        "needs_task",
        "permits",
        "reader",
        "reading",
        "ruling",
        "terms",
        "tool",
        "upstream",
        "via",
    )

    def __init__(
        self,
        tool: ToolRecord,
        ruling: Ruling,
        upstream: Upstream,
        check: QuickCheck | None,
        terms: object,
        needs_task: NeedsTask | None,
        *,
        by_model: bool,
        keeps_structured: bool,
        hooks: tuple[CallHook, ...] = (),
        called: "PreparedCall | None" = None,
        via: str | None = None,
        reader: Reader | None = None,
        has_others: bool = False,
    ) -> None:
        self.tool = tool
        self.ruling = ruling
        self.upstream = upstream
        self.config = upstream.config
        self.check = check
        self.terms = terms
        self.needs_task = needs_task
        self.by_model = by_model
        self.keeps_structured = keeps_structured
        self.hooks = hooks
        self.permits: tuple[PermitAtOnce, ...] = ()
        self.counted: Counted | None = None
        self.called = called
        self.via = via
        self.reader = reader
        self.reading: object | None = None
        self.has_others = has_others
        self.extends = tool.timeout if self.config.progress_extends(tool.timeout) else None


class CallPlans:
    """The maker of plans, for both ways of a call."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        resolver: Resolver,
        views: Views,
        failover: Failover,
        checker: Checker,
        hooks: CallHooks,
        *,
        tells_schemas: bool,
        dialects: Dialects | None = None,
    ) -> None:
        self._dialects = dialects
        self._upstreams = upstreams
        self._resolver = resolver
        self._views = views
        self._failover = failover
        self._checker = checker
        self._hooks = hooks
        # Whether lists have the output schemas of tools: hosts then expect structured results.
        self._tells_schemas = tells_schemas
        # The snapshots behind `_same_terms`.
        self._of_catalog: object = None
        self._of_rulebook: object = None
        self._of_trusted: object = None
        self._of_others: object = None
        self._same_terms = object()

    def prepare(self, view: View, tool: ToolRecord, host: Host, via: str | None = None) -> PreparedCall:
        """Return the plan for calls of a resolved tool. `via` is the meta tool that the calls come by."""
        by_model = via is not None or host.frontend == OF_MODELS
        upstream, ruling = self._upstreams[tool.server], view.ruling(tool)
        dialects, dialect = self._mended_for(view, host, via)
        reader = dialects.reader(tool, dialect, ruling.tightening) if dialects is not None else None
        check, hooks = self._checker.quick(upstream.config, tool, ruling.tightening), self._hooks.concerning(view, tool)
        return PreparedCall(
            tool,
            ruling,
            upstream,
            check,
            self._terms(),
            self._reason(tool, ruling, check, hooks),
            by_model=by_model,
            keeps_structured=self._tells_schemas and not by_model and "outputSchema" in tool.definition,
            hooks=hooks,
            via=via,
            reader=reader,
            has_others=tool.name in self._failover.others,
        )

    def is_ready(self, view: View, tool: ToolRecord, host: Host, via: str | None = None) -> bool:
        """Return whether `prepare` takes little time; if not, `make_ready` comes first."""
        dialects, dialect = self._mended_for(view, host, via)
        return dialects is None or dialects.is_ready(tool, dialect, view.ruling(tool).tightening)

    async def make_ready(self, view: View, tool: ToolRecord, host: Host, via: str | None = None) -> None:
        """Prepare in a thread the slow part of a plan: the way back of arguments from the dialect of the host."""
        dialects, dialect = self._mended_for(view, host, via)
        if dialects is not None:
            await dialects.make_ready(tool, dialect, view.ruling(tool).tightening)

    def _mended_for(self, view: View, host: Host, via: str | None) -> tuple[Dialects | None, Schemas]:
        """Return the dialects, if the arguments of such calls come in one, and which it is."""
        dialect = view.dialect(host.dialect)
        return (self._dialects if dialect != "original" and via is None else None), dialect

    def stand_in(self, view: View, tool: ToolRecord, called: PreparedCall) -> PreparedCall:
        """Return the plan for a call that another tool answers in place of the called one."""
        upstream, ruling = self._upstreams[tool.server], view.ruling(tool)
        return PreparedCall(
            tool,
            ruling,
            upstream,
            self._checker.quick(upstream.config, tool, ruling.tightening),
            self._terms(),
            NeedsTask.STANDS_IN,
            by_model=called.by_model,
            keeps_structured=called.keeps_structured,
            hooks=called.hooks,
            called=called,
            via=called.via,
        )

    def goes_to_its_own(self, plan: PreparedCall, view: View) -> bool:
        """Return whether the called tool is the one that answers now, of all that may."""
        others = (other for other in self._failover.of(plan.tool) if view.may_stand_in(other))
        return self._failover.is_first((plan.tool, *others))

    def holds(self, plan: PreparedCall) -> bool:
        """Return True if a new plan would be equal."""
        return (
            plan.terms is self._terms()
            and plan.config is plan.upstream.config
            and self._upstreams.get(plan.tool.server) is plan.upstream
            and not self._resolver.is_only_remembered(plan.tool)
        )

    def _reason(
        self, tool: ToolRecord, ruling: Ruling, check: QuickCheck | None, hooks: tuple[CallHook, ...]
    ) -> NeedsTask | None:
        """Return why calls of a tool need a task, or None."""
        if ruling.decision.verdict != "allow":
            return NeedsTask.DECISION
        if tool.param_headers:
            return NeedsTask.HEADERS
        if tool.timeout < _SHORTEST_LIMIT:
            return NeedsTask.SHORT_LIMIT
        if not all(hook.at_once for hook in hooks):
            return NeedsTask.HOOK
        return NeedsTask.SCHEMA if check is None else None

    def _terms(self) -> object:
        """Return an object that stands for the current catalog, policies and stand-ins: a new one if any changes."""
        catalog, rulebook, trusted = self._resolver.current.tools, self._views.rulebook, self._views.trusted
        others = self._failover.others
        if (
            catalog is not self._of_catalog
            or rulebook is not self._of_rulebook
            or trusted is not self._of_trusted
            or others is not self._of_others
        ):
            self._of_catalog, self._of_rulebook, self._of_trusted, self._of_others = catalog, rulebook, trusted, others
            self._same_terms = object()
        return self._same_terms
