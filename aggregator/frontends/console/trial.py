"""Calls that users make from the console: as an agent, through the policy, limits and audit of every call."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.errors import ERROR_META_KEY, RpcError
from aggregator.domain.principal import Principal
from aggregator.domain.trace_context import TRACEPARENT
from aggregator.domain.versions import LATEST_LEGACY
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import bounded, pretty
from aggregator.frontends.console.view import NotPossible, SignedIn
from aggregator.gateway.call_log import USER_KEY
from aggregator.gateway.host import Host
from aggregator.wire.peer import NoBackChannel

# The frontend that such calls are on record with.
FRONTEND: Final = "console"
# Calls at the same time, and seconds that a page waits for one.
_AT_ONCE: Final = 4
_LONGEST: Final = 100.0
# Characters of a result that are shown, and content blocks.
_SHOWN: Final = 32_000
_BLOCKS: Final = 50


@dataclass(frozen=True, slots=True)
class Trial:
    """A call that was tried: the texts of its result and the whole of it, bounded, or the `fault` that kept it.

    `trace_id` names it in the audit log.
    """

    failed: bool = False
    fault: str = ""
    code: str = ""
    texts: tuple[str, ...] = ()
    result: str = ""
    took: float = 0.0
    trace_id: str = ""
    agent: str = ""

    @classmethod
    def refused(cls, fault: str) -> "Trial":
        """Return a trial that was not made."""
        return cls(failed=True, fault=fault)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "failed": self.failed,
            "fault": self.fault,
            "code": self.code,
            "texts": list(self.texts),
            "result": self.result,
            "took": self.took,
            "trace_id": self.trace_id,
            "agent": self.agent,
            "call": f"/calls?q=trace:{self.trace_id}" if self.trace_id else "",
        }


class _SilentChannel:
    """The channel of a call whose host can answer no questions."""

    request_id = FRONTEND

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Drop a notification."""

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise NoBackChannel


class Trials:
    """The calls made by users; a few at the same time, since each keeps a page waiting."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._running = 0

    async def run(
        self, person: SignedIn, principal: Principal, name: str, server: str | None, arguments: dict[str, Any]
    ) -> Trial:
        """Call a tool of `server`, if known, and return the outcome.

        Raises:
            NotPossible: too many are in flight.
        """
        if self._running >= _AT_ONCE:
            raise NotPossible(f"{_AT_ONCE} calls from the console are under way: try again when one has ended.")
        trace_id = secrets.token_hex(16)
        self._parts.record(
            "console",
            f"{person.name} tried {name[:200]} as {principal.agent_id}",
            agent=principal.agent_id,
            server=server,
            details={"action": "tried", "by": person.name, "tool": name[:200], "trace_id": trace_id},
        )
        meta = {USER_KEY: person.name, TRACEPARENT: f"00-{trace_id}-{secrets.token_hex(8)}-01"}
        params = {"name": name, "arguments": arguments, "_meta": meta}
        host = Host(FRONTEND, "canonical", principal, version=LATEST_LEGACY)
        began = time.monotonic()
        self._running += 1
        try:
            async with asyncio.timeout(_LONGEST):
                result = await self._parts.gateway.answer(host, "tools/call", params, _SilentChannel())
        except RpcError as error:
            failure = {"code": error.code, "message": error.message}
            result = {"isError": True, "content": [{"type": "text", "text": error.message}], "error": failure}
        except TimeoutError:
            said = f"No answer came within {_LONGEST:g} s. The call was cancelled; it may have been carried out."
            result = {"isError": True, "content": [{"type": "text", "text": said}]}
        finally:
            self._running -= 1
        took = time.monotonic() - began
        return await asyncio.to_thread(self._shown, result, took, trace_id, principal.agent_id)

    def _shown(self, result: Mapping[str, Any], took: float, trace_id: str, agent: str) -> Trial:
        """Return the trial without secrets; in a thread, since a result may be large."""
        redact = self._parts.redactor.value
        content = result.get("content")
        texts: list[str] = []
        left = _SHOWN
        for block in content[:_BLOCKS] if isinstance(content, list) else ():
            if isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str):
                # Redacted with a margin: half a secret at a cut would not be recognised.
                text = redact(block["text"][: 2 * _SHOWN])
                texts.append(bounded(text, left))
                left = max(0, left - len(text))
        meta = result.get("_meta")
        refused = meta.get(ERROR_META_KEY) if isinstance(meta, Mapping) else None
        code = refused.get("code") if isinstance(refused, Mapping) else None
        written = bounded(redact(pretty(result, 2 * _SHOWN)), _SHOWN)
        return Trial(
            failed=bool(result.get("isError")),
            code=code if isinstance(code, str) else "",
            texts=tuple(texts),
            result=written,
            took=took,
            trace_id=trace_id,
            agent=agent,
        )
