"""A gateway with servers that read from the web, from files and from mail, and send; its policies have flow rules."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aggregator.app.app import App
from aggregator.config.model import Config
from aggregator.flow.gateway.guard import FlowGuard
from aggregator.flow.gateway.hook import FlowHook
from aggregator.flow.gateway.states import FlowStates
from aggregator.gateway.host import Host
from tests.access.gateway_harness import LEGACY, GatewayHarness, make_config, tool
from tests.peers.toolbox import Json

TOOLS: Final[Mapping[str, list[Json]]] = {
    "web": [tool("fetch"), tool("plain")],
    "files": [tool("read")],
    "mail": [tool("send", {"to": {"type": "string"}}), tool("list")],
}
LABELS: Final[Json] = {"untrusted": ["web.fetch"], "private": ["files.*"], "outward": ["mail.send"]}
CONFIRM: Final[Json] = {"after": "untrusted", "calls": "outward", "then": "confirm"}
DENY: Final[Json] = {"after": ["untrusted", "private"], "calls": "outward", "then": "deny"}
AGENTS: Final[Json] = {name: {"allow": ["*"], "expose": "all"} for name in ("ada", "bob")}
POLICIES: Final[Json] = {"labels": LABELS, "flow": [CONFIRM, DENY], "agents": AGENTS}
FORMS: Final[Json] = {"elicitation": {"form": {}}}
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
OTHER_TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"


def flow_of(app: App) -> FlowStates:
    """Return the labels of the conversations of a program."""
    found = next(one.follows for one in app.hooks if isinstance(one.hook, FlowHook))
    assert isinstance(found, FlowStates)
    return found


def guard_of(app: App) -> FlowGuard:
    """Return the decisions by flow rules of a program."""
    return next(one.hook._guard for one in app.hooks if isinstance(one.hook, FlowHook))


def policies(**more: Any) -> Json:
    """Return the policies with more fields, or others."""
    return {**POLICIES, **more}


def traced(trace: str = TRACE) -> Json:
    """Return the `_meta` of a request in a trace that a host began."""
    return {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}


class MovedClock:
    """A clock that is moved by hand; seconds since 1970."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


class FlowHarness(GatewayHarness):
    """A gateway with flow rules, by a clock that is moved by hand."""

    def __init__(
        self, folder: Path, clock: MovedClock, rules: object = POLICIES, storage: str | None = None, **settings: Any
    ) -> None:
        super().__init__(flow_config(folder, **settings), TOOLS, rules, storage)
        flow_of(self.app).now = clock

    async def outcome(self, host: Host, name: str, **more: Any) -> str:
        """Call a tool; return `ok`, or the code of the refusal, or `asked` where a question came back."""
        answer = await self.call(host, name, **more)
        return outcome_of(answer)

    def legacy(
        self,
        agent: str = "ada",
        session: str | None = "one",
        capabilities: Json | None = None,
        *,
        listed: bool = True,
    ) -> Host:
        """Return a host of the handshake eras, in a session that began with a list or without one."""
        host = self.host(agent, LEGACY, capabilities, session)
        host.listed = listed
        return host


def outcome_of(answer: Json) -> str:
    """Return how a call ended, in one word."""
    if "error" in answer:
        return str((answer["error"].get("data") or {}).get("code", answer["error"]["code"]))
    result = answer["result"]
    if result.get("resultType") == "input_required":
        return "asked"
    if result.get("isError") is True:
        error = (result.get("_meta") or {}).get("aggregator/error")
        return str(error["code"]) if error is not None else "error"
    return "ok"


def flow_config(folder: Path, **settings: Any) -> Config:
    servers = {server: {"command": "played"} for server in TOOLS}
    return make_config(folder, servers, startup_wait=0.1, **settings)
