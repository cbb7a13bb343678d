"""Flow rules in the running program."""

from aggregator.app.hook_parts import Background, BuiltHook, HookParts
from aggregator.flow.gateway.guard import FlowGuard
from aggregator.flow.gateway.hook import FlowHook
from aggregator.flow.gateway.states import FlowStates
from aggregator.storage.records import FLOW_SUBJECT


def build_flow(parts: HookParts) -> BuiltHook:
    """Return the hook of flow rules, with the labels of conversations behind it."""
    replication = parts.replication
    states = FlowStates(parts.database, replication.clock.now, lambda: replication.enabled)
    hook = FlowHook(FlowGuard(states, parts.call_log))
    return BuiltHook(hook, Background("the flow labels", states.run), FLOW_SUBJECT, states)
