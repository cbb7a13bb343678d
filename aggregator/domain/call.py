"""The stages of a call. Each is made from the one before, so that no step can be left out."""

from dataclasses import dataclass
from typing import Any

from aggregator.domain.decision import Decision
from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord


@dataclass(frozen=True, slots=True)
class Asked:
    """`tools/call` as it came: `params` untouched, hop-local `_meta` in it; `style` is how the host sees names."""

    principal: Principal
    params: dict[str, Any]
    style: Style = "canonical"

    @property
    def name(self) -> str:
        """The called name, in whatever spelling.

        Raises:
            HostError: there is none.
        """
        name = self.params.get("name")
        if not isinstance(name, str) or not name:
            raise HostError(INVALID_PARAMS, "`tools/call` needs `name`, the name of a tool, as a string.")
        return name


@dataclass(frozen=True, slots=True)
class Resolved:
    """It is known which tool of which upstream is meant."""

    asked: Asked
    tool: ToolRecord


@dataclass(frozen=True, slots=True)
class Permitted:
    """The policy step allowed it. Only the pipeline makes one, and only this can be forwarded."""

    resolved: Resolved
    decision: Decision
