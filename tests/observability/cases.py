"""Calls with every outcome, their servers and policy, and the ids that identify each call."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.access.recording_toolbox import RecordingToolbox
from tests.observability.agent_clients import CONVERSATION
from tests.peers.toolbox import REFUSAL_CODE, Json, Progress, Refusal, text_result, tool

POLICY: Final = """
tenants:
  acme:
    servers: [slow]
agents:
  shop:
    tenant: acme
    allow: ["*"]
    deny: [crm.wipe]
    confirm: [crm.pay]
    confirm_fallback: queue
    confirm_wait: 0
    arguments:
      crm.put: { properties: { amount: { maximum: 50 } } }
"""
NUMBER: Final = {"amount": {"type": "integer"}}
KEY: Final = {"key": {"type": "string"}}
TOOLS: Final = [
    tool("get", "Gets.", {"city": {"type": "string"}}),
    tool("put", "Puts.", NUMBER),
    tool("wipe", "Wipes."),
    tool("pay", "Pays.", NUMBER),
    tool("refuse", "Says no."),
    tool("decline", "Answers with an error."),
    tool("hold", "Waits.", KEY),
]


@dataclass(frozen=True)
class Case:
    """A call, how it ends, and the line of the policy that is to blame."""

    called: str
    arguments: Mapping[str, Any]
    status: str
    code: str | None = None
    blamed: str | None = None
    sent: bool = False
    known: bool = True

    @property
    def server(self) -> str:
        return self.called.partition(".")[0]


CASES: Final = {
    "ok": Case("crm.get", {"city": "Graz"}, "ok", sent=True),
    "tool error": Case("crm.refuse", {}, "error", "tool_error", sent=True),
    "protocol error": Case("crm.decline", {}, "error", str(REFUSAL_CODE), sent=True),
    "timeout": Case("slow.hold", {"key": "never"}, "timeout", "upstream_timeout", sent=True),
    "denied": Case("crm.wipe", {}, "denied", "tool_not_allowed", "deny: [crm.wipe]"),
    "unfit": Case("crm.put", {"amount": "many"}, "invalid", "invalid_arguments"),
    "too much": Case("crm.put", {"amount": 51}, "invalid", "invalid_arguments", "crm.put:"),
    "unknown": Case("crm.nothing", {}, "invalid", "unknown_tool", known=False),
    "away": Case("down.get", {}, "unavailable", "upstream_unavailable", known=False),
    "pending": Case("crm.pay", {"amount": 3}, "pending", "approval_pending", "confirm: [crm.pay]"),
    "cancelled": Case("crm.hold", {"key": "?"}, "cancelled", "cancelled", sent=True),
}


class Crm(RecordingToolbox):
    """A toolbox with one tool that answers with a JSON-RPC error."""

    def __init__(self) -> None:
        super().__init__(TOOLS, {"refuse": {**text_result("no such city"), "isError": True}})

    async def call(self, params: Mapping[str, Any], progress: Progress) -> Json:
        if params["name"] == "decline":
            raise Refusal(REFUSAL_CODE, "The peer declines.", None)
        return await super().call(params, progress)


def servers(crm: Crm, folder: Path) -> dict[str, Json]:
    """Return the entries of three servers: one answers, one is too slow, one does not start."""
    slow = RecordingToolbox([tool("hold", "Waits.", KEY)])
    return {
        "crm": crm.config_entry(),
        "slow": slow.config_entry(timeout=0.05, health={"failures": 100_000}),
        "down": {"command": str(folder / "nothing")},
    }


def trace_of(number: int) -> tuple[str, str]:
    """Ids of a trace and of the host's span, as the host has them."""
    return f"{0xABCD << 96 | number:032x}", f"{0xEF << 48 | number:016x}"


def meta_for(conversation: str, number: int) -> Json:
    trace_id, span_id = trace_of(number)
    return {
        CONVERSATION: conversation,
        "aggregator/user_id": f"user {number}",
        "aggregator/session_id": f"session {number}",
        "traceparent": f"00-{trace_id}-{span_id}-01",
    }
