"""The later stages of a call, which only the pipeline makes; the relay sends a call of a tool only as a `Checked`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import CallRecord
from aggregator.gateway.calls.plan import PreparedCall
from aggregator.gateway.hooks import Guards
from aggregator.policy.rulebook import Ruling
from aggregator.schemas.coerce import Correction


class Permitted(NamedTuple):
    """A call that the policy allows, perhaps once a person has agreed. Only the pipeline makes one.

    `ruling` is the plan's, or a stricter one of a hook. `guards` are the parts of features in the call.
    """

    call: ToolCall
    plan: PreparedCall
    ruling: Ruling
    record: CallRecord
    guards: Guards = ()


class Checked(NamedTuple):
    """A permitted call whose arguments fit, with what was corrected in them. Only the pipeline makes one."""

    permitted: Permitted
    arguments: dict[str, Any]
    corrections: Sequence[Correction] = ()
