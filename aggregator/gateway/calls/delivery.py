"""The delivery of a result: with URIs as hosts see them, checked, no larger than allowed, and with its provenance."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Final

from aggregator.domain.bounds.offload import is_long
from aggregator.domain.uris.links import in_result
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.calls.plan import PreparedCall
from aggregator.gateway.calls.provenance import attributed
from aggregator.gateway.calls.stages import Checked, Permitted
from aggregator.gateway.calls.validate import Checker
from aggregator.gateway.host import Host
from aggregator.policy.limits import Limits
from aggregator.results.gateway.keeper import ResultSource
from aggregator.results.gateway.showing import LargeResults, knows_links

# Work on a result that takes long, or has an effect: its outcome replaces the result.
LongWork = Callable[[], Awaitable[dict[str, Any]]]
Steps = Generator[LongWork, dict[str, Any], dict[str, Any]]
Fit = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

_META: Final = "_meta"
# In the `_meta` of the result of a call in whose course its server added tools that wait for an approval: a sentence.
NEWS_KEY: Final = "aggregator/news"
# The meta tool by which the calls of programs come.
_PROGRAM: Final = "run_code"


class ResultDelivery:
    """The maker of what hosts get of results. Its steps stand once, in `_steps`."""

    def __init__(self, checker: Checker, large_results: LargeResults, agent_items: AgentItems) -> None:
        self._checker = checker
        self._large_results = large_results
        self._agent_items = agent_items

    def deliver_at_once(self, plan: PreparedCall, host: Host, result: dict[str, Any]) -> dict[str, Any] | None:
        """Return a result as its host gets it; None if that is long work, or the result does not fit its schema.

        The plan needs no task.
        """
        steps = self._steps(plan, host, result, _not_at_once, plan.ruling.limits)
        try:
            next(steps)
        except StopIteration as done:
            delivered: dict[str, Any] = done.value
            return delivered
        steps.close()
        return None

    async def deliver(
        self, checked: Checked, host: Host, result: dict[str, Any], labels: frozenset[str]
    ) -> dict[str, Any]:
        """Return a result as its host gets it. `labels` are the flow labels that it has."""
        permitted = checked.permitted
        fit = partial(self._fitted, permitted, host, labels)
        steps = self._steps(permitted.plan, host, result, fit, permitted.ruling.limits)
        try:
            work = next(steps)
            while True:
                work = steps.send(await work())
        except StopIteration as done:
            delivered: dict[str, Any] = done.value
            return delivered

    def _steps(self, plan: PreparedCall, host: Host, result: dict[str, Any], fit: Fit, limits: Limits) -> Steps:
        """Yield the work that takes long, for its outcome; return the result as its host gets it."""
        tool, upstream, called = plan.tool, plan.upstream, plan.called or plan
        content: Any = result.get("content")
        alone = _is_one_text(content)
        if tool.prefix and (_META in result or (content and not alone)):
            elsewhere = self._agent_items.elsewhere(host, upstream)
            if is_long(content):
                result = yield partial(asyncio.to_thread, in_result, tool.prefix, result, elsewhere)
            else:
                result = in_result(tool.prefix, result, elsewhere)
        # A program reads the value that a tool gives; the news stay for an answer that a host or a model reads.
        if called.upstream.news is not None and plan.via != _PROGRAM:
            result = yield partial(_with_news, called, result)
            alone = False
        config = called.upstream.config
        if called.check is None or called.config is not config or not called.check.result_fits(result):
            result = yield partial(self._checker.result, config, called.tool, result, host.principal.agent_id)
            alone = False
        large = self._large_results
        if limits.bounds_results:
            counts_tokens = plan.by_model or large.cuts_direct
            small = large.surely_fits(
                result, limits, keeps_structured=plan.keeps_structured, counts_tokens=counts_tokens
            )
        elif not (plan.by_model or large.cuts_direct):
            small = not is_long(content)
        elif alone and (plan.keeps_structured or "structuredContent" not in result):
            # Most results end here, without a call.
            small = len(content[0]["text"]) <= large.most_characters
        else:
            small = not is_long(result.get("content")) and large.is_small(result, structured=not plan.keeps_structured)
        if not small:
            result = yield partial(fit, result)
            if is_long(result.get("content")):
                server = called.tool.server
                return (
                    yield partial(asyncio.to_thread, attributed, upstream.config, tool, result, time.time(), server)
                )
        return attributed(upstream.config, tool, result, time.time(), called.tool.server)

    async def _fitted(
        self, permitted: Permitted, host: Host, labels: frozenset[str], result: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a result whole, or a part of it if it is too large."""
        call, plan = permitted.call, permitted.plan
        return await self._large_results.fitted(
            result,
            permitted.ruling.limits,
            call.principal,
            ResultSource(plan.tool.server, plan.tool.own_name),
            keeps_structured=plan.keeps_structured,
            counts_tokens=plan.by_model or self._large_results.cuts_direct,
            links=knows_links(host.frontend, call.version),
            for_program=call.within is not None,
            labels=labels,
        )


async def _not_at_once(result: dict[str, Any]) -> dict[str, Any]:
    """Stand for work that a task does: see `deliver_at_once`."""
    raise AssertionError("work that takes long is for a task")


async def _with_news(plan: PreparedCall, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with the news of its server: in `_meta`, and also as a text block if a model reads the result."""
    news = await plan.upstream.take_news()
    if not news:
        return result
    meta, content = result.get(_META), result.get("content")
    made = {**result, _META: {**(meta if isinstance(meta, dict) else {}), NEWS_KEY: news}}
    if plan.by_model and isinstance(content, list):
        made["content"] = [*content, {"type": "text", "text": f"[{news}]"}]
    return made


def _is_one_text(content: Any) -> bool:
    """Return True for one block of text, which cannot name a resource."""
    if type(content) is not list or len(content) != 1 or type(content[0]) is not dict:
        return False
    block = content[0]
    return block.get("type") == "text" and type(block.get("text")) is str
