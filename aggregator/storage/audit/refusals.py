"""Refused calls by the rule that refused them, among the newest rows only: a page waits for them."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import case, func, select

from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import mcp_tool_call_log

# Rows of the log that are read.
LOOKED_AT: Final = 20_000
_TEXT: Final = 400
# How a row says that a limit was reached.
_LIMIT: Final = "limit_reached"


@dataclass(frozen=True, slots=True)
class RuleRefusals:
    """The refusals by one rule. `agent` and `tool` come from one of them, `agents` counts the agents it refused."""

    rule: str
    source: str | None
    is_limit: bool
    times: int
    agents: int
    last: float
    agent: str
    tool: str


async def refusals_by_rule(engine: Engine, since: float, most: int) -> list[RuleRefusals]:
    """Return at most `most` rules, and as many limits, that refused calls since then; those that did most come first.

    Raises:
        StorageError: the database cannot be read.
    """
    columns = mcp_tool_call_log.c
    async with engine.read() as connection:
        last = (await connection.execute(select(func.max(columns.seq)))).scalar() or 0
        # A table of its own, so that the groups are named: two texts with parameters are never the same to PostgreSQL.
        refused = (
            select(
                func.substr(columns.rule, 1, _TEXT).label("rule"),
                func.substr(columns.rule_source, 1, _TEXT).label("source"),
                case((columns.error_code == _LIMIT, 1), else_=0).label("is_limit"),
                columns.agent_id.label("agent"),
                columns.started.label("started"),
                func.substr(func.coalesce(columns.tool_name, columns.asked_name), 1, _TEXT).label("tool"),
            )
            .where(
                columns.seq > last - LOOKED_AT,
                columns.status == "denied",
                columns.rule.is_not(None),
                # Not by the index of times: the numbers of rows say where to look.
                columns.started + 0 >= since,
            )
            .subquery()
        )
        found = refused.c
        query = (
            select(
                found.rule,
                found.source,
                found.is_limit,
                func.count(),
                func.count(found.agent.distinct()),
                func.max(found.started),
                func.min(func.substr(found.agent, 1, _TEXT)),
                func.min(found.tool),
            )
            .group_by(found.rule, found.source, found.is_limit)
            .order_by(func.count().desc())
        )
        rows = [
            RuleRefusals(rule, source, bool(limit), *rest)
            for rule, source, limit, *rest in await connection.execute(query)
        ]
    rules, limits = [one for one in rows if not one.is_limit], [one for one in rows if one.is_limit]
    return [*rules[:most], *limits[:most]]
