"""The later stages of a call, which only the pipeline makes; the relay sends a call of a tool only as a `Checked`."""

from typing import Any, NamedTuple

from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import CallRecord
from aggregator.flow.gateway.call_flow import CallFlow
from aggregator.gateway.calls.plan import PreparedCall
from aggregator.policy.rulebook import Ruling


class Permitted(NamedTuple):
    """A call that the policy allows, perhaps once a person has agreed. Only the pipeline makes one.

    `ruling` is that of the plan, or a stricter one by what the conversation has read. `flow` is what its result brings
    to its conversation, None if no policy has flow rules.
    """

    call: ToolCall
    plan: PreparedCall
    ruling: Ruling
    record: CallRecord
    flow: CallFlow | None = None


class Checked(NamedTuple):
    """A permitted call whose arguments fit; coercion may have changed them. Only the pipeline makes one."""

    permitted: Permitted
    arguments: dict[str, Any]
