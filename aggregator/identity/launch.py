"""The agent that a stdio process is started for."""

from collections.abc import Mapping
from typing import Final

from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import check_agent_id
from aggregator.domain.text.error_text import error_text

AGENT_VARIABLE: Final = "AGGREGATOR_AGENT"


def launch_agent(option: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the agent a stdio process is started for: `--agent`, else `AGGREGATOR_AGENT`.

    Raises:
        OperatorError: the text cannot be the name of an agent.
    """
    given = option if option is not None else environ.get(AGENT_VARIABLE) or None
    if given is not None:
        try:
            check_agent_id(given)
        except ValueError as error:
            raise OperatorError(
                f"{'--agent' if option is not None else AGENT_VARIABLE}: {error_text(error)}"
            ) from error
    return given
