"""One request of a host, with everything an answer may depend on."""

from dataclasses import dataclass
from typing import Any

from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.versions import LATEST_LEGACY, era_of
from aggregator.gateway.host import Host
from aggregator.gateway.inquiry import Inquiries
from aggregator.wire.peer import Channel


@dataclass(frozen=True, slots=True)
class Question:
    """`version` is the revision it speaks; None only before a handshake. `inquiries` is how it can be asked back."""

    host: Host
    params: dict[str, Any]
    channel: Channel
    version: str | None
    inquiries: Inquiries

    @property
    def modern(self) -> bool:
        """Whether it speaks 2026-07-28."""
        return self.version is not None and era_of(self.version) == "modern"

    @property
    def spoken(self) -> str:
        """The revision that an answer is made for."""
        return self.version or LATEST_LEGACY

    def text(self, key: str) -> str:
        """A parameter that must be there, as text.

        Raises:
            HostError: it is not.
        """
        value = self.params.get(key)
        if not isinstance(value, str) or not value:
            raise HostError(INVALID_PARAMS, f"`{key}` must be a string that is not empty.")
        return value
