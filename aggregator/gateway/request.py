"""One request of a host, with everything an answer may depend on."""

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

# As deep as the arguments of a tool may be.
_DEEPEST: Final = 64


class Request(NamedTuple):
    """`version` is the revision it speaks; None only before a handshake. `inquiries` is how it can be asked back,
    `trail` what is on record of it, where that is more than a line in the log."""

    host: Host
    params: dict[str, Any]
    channel: Channel
    version: str | None
    inquiries: InputRequests
    trail: OpenRecord | None = None

    @property
    def modern(self) -> bool:
        """Whether it speaks 2026-07-28."""
        return self.version is not None and era_of(self.version) == "modern"

    @property
    def spoken(self) -> str:
        """The revision that an answer is made for."""
        return self.version or LATEST_LEGACY

    def asked(self, style: Style = "canonical") -> ToolCall:
        """The same as the first stage of a call; it belongs to what the host names, else to its session."""
        meta = self.params.get("_meta")
        named = meta.get(CONVERSATION_KEY) if isinstance(meta, dict) else None
        conversation = named if isinstance(named, str) and named else self.host.session
        return ToolCall(self.host.principal, self.params, self.spoken, style, conversation)

    def text(self, key: str) -> str:
        """A parameter that must be there, as text.

        Raises:
            HostError: it is not.
        """
        value = self.params.get(key)
        if not isinstance(value, str) or not value:
            raise HostError(INVALID_PARAMS, f"`{key}` must be a string that is not empty.")
        return value

    def arguments(self) -> dict[str, Any]:
        """What a person is asked about and an answer is bound to; nothing is sent that this does not show.

        Raises:
            HostError: it is no object, or nested too deeply to be read.
        """
        value = self.params.get("arguments")
        if value is None:
            return {}
        if not isinstance(value, dict) or deeper_than(value, _DEEPEST):
            raise HostError(INVALID_PARAMS, f"`arguments` must be an object, nested at most {_DEEPEST} levels deep.")
        return value

    def about(self, server: str, own: str) -> None:
        """It is known what is asked for, and of which server."""
        if self.trail is not None:
            self.trail.name(server, own)
