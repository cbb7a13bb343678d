"""The methods that read from an upstream, each with its record: one audit row and one span, however it ends."""

from typing import Any

from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.drain import Drain
from aggregator.gateway.look_alike_members import refuse_look_alikes
from aggregator.gateway.reads.completion import Completion
from aggregator.gateway.reads.prompts import Prompts
from aggregator.gateway.reads.resources import Resources
from aggregator.gateway.request import ItemMethod, Request
from aggregator.skills.reads import Skills


class RecordedReads:
    """The answers to these methods, by method."""

    def __init__(
        self,
        call_log: CallLog,
        drain: Drain,
        agent_items: AgentItems,
        resources: Resources,
        prompts: Prompts,
        completion: Completion,
        skills: Skills,
    ) -> None:
        self._call_log = call_log
        self._drain = drain
        self._agent_items = agent_items
        self._methods: dict[str, ItemMethod] = {
            "resources/read": resources.read,
            "resources/directory/read": skills.read_directory,
            "prompts/get": prompts.get,
            "completion/complete": completion.complete,
            "skills/get": skills.get,
        }

    async def answer(self, method: str, request: Request) -> dict[str, Any]:
        """Return the result of one of the methods.

        Raises:
            RpcError, UpstreamError: as of the method; it is on record.
        """
        async with self._call_log.record(request.as_call(), request.host, method) as entry:
            entry.record.request_id = request.channel.request_id
            await entry.wait_for_space()
            if self._drain.started:
                raise self._drain.refusal()
            refuse_look_alikes(request.params)
            await self._agent_items.ready(request.host)
            entry.answer_with(await self._methods[method](request._replace(entry=entry)))
        return entry.result
