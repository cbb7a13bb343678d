"""The rows of tool reports as values, and their bounds."""

from typing import Final, NamedTuple

# Characters of a reason.
LONGEST: Final = 500
# Rows of one agent, and of all together.
MOST_OF_AGENT: Final = 100
MOST: Final = 1_000
# Different reasons of one agent about one tool; the oldest one gives way to the next.
MOST_REASONS: Final = 5
# Seconds that a report is kept after the agent last made it.
REPORTS_KEPT: Final = 90 * 86400.0


class Reason(NamedTuple):
    """One reason: the text, how often it was given, and when last, in seconds since 1970."""

    text: str
    times: int
    last: float


class ToolReport(NamedTuple):
    """The reports of one agent about one tool. `reasons` has the latest one first; `times` counts older ones too."""

    server: str
    tool: str
    agent_id: str
    times: int
    first: float
    last: float
    reasons: tuple[Reason, ...]


class TooManyReports(Exception):
    """The agent, or all agents together, have reported as many tools as are kept; `most` is that bound."""

    def __init__(self, most: int, *, of_agent: bool) -> None:
        super().__init__(f"{most} reported tools")
        self.most = most
        self.of_agent = of_agent
