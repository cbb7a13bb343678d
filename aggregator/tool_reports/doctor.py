"""Tools that agents reported as broken. This file decides."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from aggregator.doctor.finding import CheckFinding, found


class ReportCounts(NamedTuple):
    """The reported tools of one server, and how often agents reported them."""

    tools: int
    times: int


def of_reports(reports: Mapping[str, ReportCounts], servers: Collection[str]) -> Iterator[CheckFinding]:
    """Yield the configured servers with reported tools.

    reports: the counts by server, also of servers that are not configured any more.
    """
    for server, (tools, times) in reports.items():
        if server in servers:
            some = f"{tools} tool{'s' if tools != 1 else ''}"
            often = f" ({times} times)" if times > 1 else ""
            said = f"Agents reported {some} of {server} as broken{often}."
            after = f"once it is mended, run `aggregator reports clear {server}`"
            yield found("tools_reported", said, f"Look at `aggregator reports list {server}`; {after}.", server)
