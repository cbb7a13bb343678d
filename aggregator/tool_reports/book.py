"""The reports of a process: cleaned, bounded, and written to the database."""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.errors import BadArguments, Blame, CallRefused, OverLimit
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.invisible import cleaned
from aggregator.domain.text.unstorable import storable
from aggregator.redaction.beginning import beginning
from aggregator.redaction.redactor import Redactor
from aggregator.storage.errors import StorageError
from aggregator.storage.lazy_database import LazyDatabase
from aggregator.tool_reports.rows import LONGEST, TooManyReports

log = logging.getLogger(__name__)

REPORT_TOOL: Final = "report_tool"
# Characters of a reason that are read at all: blanks in a row count as one afterwards.
_READ: Final = 100_000
# Reports of one agent that this process writes in one minute, and agents that are counted.
MOST_A_MINUTE: Final = 10
_MINUTE: Final = 60.0
_AGENTS: Final = 1_000
_BLANKS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_BLAME: Final = Blame(REPORT_TOOL, None)


class NotKept(CallRefused):
    """The report could not be written."""

    code = "report_not_kept"
    status = 503
    advice = "Go on without reporting it."


class NotReportable(CallRefused):
    """The agent may not call the tool, or nothing serves it now, so that there is nothing to report."""

    code = "not_reportable"
    status = 403
    advice = "Go on without reporting it."


class ReportBook:
    """The taking of reports. `clock` returns the time in seconds since 1970."""

    def __init__(self, database: LazyDatabase, redactor: Redactor, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._redactor = redactor
        self._clock = clock
        # By agent the minute, and how many reports it has made in it.
        self._made: LruCache[str, tuple[int, int]] = LruCache(_AGENTS)

    async def take(self, agent: str, tool: ToolRecord, why: str) -> int:
        """Write a report; return how often this agent has reported the tool.

        Raises:
            BadArguments: the reason says nothing.
            OverLimit: the agent has reported too often, or too many tools are reported.
            NotKept: the database failed.
        """
        text = self._reason(why)
        if not text:
            raise BadArguments(REPORT_TOOL, "Say in `why` what went wrong with the tool.")
        now = self._clock()
        self._count(agent, now)
        try:
            database = await self._database.open()
            if database is None:
                raise NotKept(REPORT_TOOL, "There is no database to keep the report in.")
            return await database.tool_reports.add(storable(tool.server), storable(tool.own_name), agent, text, now=now)
        except TooManyReports as full:
            by = "you have" if full.of_agent else "agents have"
            said = f"Not kept: {by} reported {full.most} tools, and the operators have not cleared them yet."
            raise OverLimit(REPORT_TOOL, said, blame=_BLAME, limit="tool_reports", most=full.most) from None
        except StorageError as error:
            log.warning("a tool report could not be kept: %s", error)
            raise NotKept(REPORT_TOOL, "The report could not be kept: the database does not take it now.") from error

    def _reason(self, why: str) -> str:
        """Return the text as it is kept: on one line, without invisible characters and secrets."""
        plain = cleaned(_BLANKS.sub(" ", storable(why[:_READ]))).strip()
        hidden = beginning(plain, self._redactor, LONGEST + 1)
        return hidden if len(hidden) <= LONGEST else f"{hidden[: LONGEST - 1]}…"

    def _count(self, agent: str, now: float) -> None:
        minute = int(now // _MINUTE)
        began, made = self._made.get(agent) or (minute, 0)
        made = made + 1 if began == minute else 1
        if made > MOST_A_MINUTE:
            left = max(1, round(_MINUTE - now % _MINUTE))
            said = f"Not kept: you have made {MOST_A_MINUTE} reports in this minute."
            raise OverLimit(REPORT_TOOL, said, blame=_BLAME, limit="tool_reports", most=MOST_A_MINUTE, retry_after=left)
        self._made.put(agent, (minute, made))
