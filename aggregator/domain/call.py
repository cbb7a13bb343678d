"""A call as it came: the first stage. `gateway/calls/stages.py` has the later ones."""

from typing import Any, Final, NamedTuple

from aggregator.domain.call_record import TraceContext
from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal

# The member of `_meta` by which a caller names the conversation that a call belongs to.
CONVERSATION_KEY: Final = "aggregator/conversation_id"


class ToolCall(NamedTuple):
    """`tools/call` from a host: `params` unchanged, with hop-local `_meta`.

    `version` is its revision, `style` the host's spelling of names, `conversation` its conversation, `via` the meta
    tool or frontend that it came through, if any. `only_reads`: the tool must be known to change nothing. `within` is
    the trace position of the `run_code` call whose program makes this one. `asked` is the name as it was written, if
    `params` has the canonical one in its place.
    """

    principal: Principal
    params: dict[str, Any]
    version: str
    style: Style = "canonical"
    conversation: str | None = None
    via: str | None = None
    only_reads: bool = False
    within: TraceContext | None = None
    asked: str | None = None

    @property
    def name(self) -> str:
        """Return the called name, as the host wrote it.

        Raises:
            HostError: there is none.
        """
        name = self.params.get("name")
        if not isinstance(name, str) or not name:
            raise HostError(INVALID_PARAMS, "`tools/call` needs `name`, the name of a tool, as a string.")
        return name

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments; none are an empty object.

        Raises:
            HostError: they are no object.
        """
        arguments = self.params.get("arguments")
        if arguments is None:
            return {}
        if not isinstance(arguments, dict):
            raise HostError(INVALID_PARAMS, "`arguments` of `tools/call` must be an object.")
        return arguments
