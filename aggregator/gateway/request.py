"""One request of a host, with everything that its answer may depend on."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from aggregator.domain.call import CONVERSATION_KEY, ToolCall
from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.names import Style
from aggregator.domain.schema_walk import deeper_than
from aggregator.domain.versions import LATEST_LEGACY, era_of
from aggregator.gateway.ask.input_required import InputRequests
from aggregator.gateway.call_log import OpenRecord
from aggregator.gateway.host import Host
from aggregator.wire.peer import Channel

# The depth that the arguments of a tool may have.
_DEEPEST: Final = 64


class Request(NamedTuple):
    """A request with its host, params and channel.

    `version` is the revision it speaks, None only before a handshake. `input_requests` sends requests back to the host,
    `entry` is the call record of the request, for methods that have one.
    """

    host: Host
    params: dict[str, Any]
    channel: Channel
    version: str | None
    input_requests: InputRequests
    entry: OpenRecord | None = None

    @property
    def modern(self) -> bool:
        """True if the request speaks 2026-07-28."""
        return self.version is not None and era_of(self.version) == "modern"

    @property
    def answer_version(self) -> str:
        """The revision in which the request is answered."""
        return self.version or LATEST_LEGACY

    def as_call(self, style: Style = "canonical") -> ToolCall:
        """Return the request as a call. Its conversation is the one that the host names, else its session."""
        return as_call(self.host, self.params, self.answer_version, style)

    def text(self, key: str) -> str:
        """Return a parameter that must be a string and not empty.

        Raises:
            HostError: it is missing, empty or no string.
        """
        value = self.params.get(key)
        if not isinstance(value, str) or not value:
            raise HostError(INVALID_PARAMS, f"`{key}` must be a string that is not empty.")
        return value

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that a confirmation displays and an answer is bound to; nothing else is sent.

        Raises:
            HostError: they are no object, or nested too deeply to be read.
        """
        value = self.params.get("arguments")
        if value is None:
            return {}
        if not isinstance(value, dict) or deeper_than(value, _DEEPEST):
            raise HostError(INVALID_PARAMS, f"`arguments` must be an object, nested at most {_DEEPEST} levels deep.")
        return value

    def about(self, server: str, own: str) -> None:
        """Enter the server and the own name of the requested item in the call record."""
        if self.entry is not None:
            self.entry.name(server, own)


def as_call(host: Host, params: dict[str, Any], version: str, style: Style) -> ToolCall:
    """Return the params of a `tools/call` as a call. Its conversation is the one the host names, else its session."""
    meta = params.get("_meta")
    named = meta.get(CONVERSATION_KEY) if isinstance(meta, dict) else None
    conversation = named if isinstance(named, str) and named else host.session
    return ToolCall(host.principal, params, version, style, conversation)


# A function that answers a request for a resource, a prompt or a completion.
ItemMethod = Callable[[Request], Awaitable[dict[str, Any]]]
