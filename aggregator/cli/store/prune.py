"""`aggregator prune`: removes expired rows now, or prints their number."""

import json
import os
import time
from typing import TYPE_CHECKING

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.tables import print_rows
from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError
from aggregator.storage.audit.past_times import past
from aggregator.storage.database import open_database
from aggregator.storage.locate import default_url, full_url, sqlite_path
from aggregator.storage.retention import Removed, RetentionRules, would_prune
from aggregator.storage.retention import prune as prune_rows

if TYPE_CHECKING:
    from aggregator.cli.runtime.setup import DatabaseSettings


def run(settings: "DatabaseSettings", dry_run: bool, before: str | None, as_json: bool) -> int:
    """Remove expired rows and print a line for each kind.

    Raises:
        OperatorError: the database cannot be used, or `before` is no time.
    """
    now = time.time()
    bound = past(before, now) if before is not None else None
    if bound is not None and bound > now:
        raise OperatorError(f"--before {before!r:.60} is in the future, and would remove every row.")
    rules = RetentionRules(settings.keep_for, settings.keep_bytes, bound, settings.audited or bound is not None)
    removed = run_loop(_prune(settings, rules, now, dry_run))
    if as_json:
        told = [{"kind": one.kind, "rows": one.rows, "why": one.why} for one in removed]
        say(json.dumps({"dry_run": dry_run, "removed": told}, indent=2))
        return 0
    head = ("WHAT", "WOULD GO" if dry_run else "REMOVED", "BECAUSE")
    print_rows([head, *((one.kind, str(one.rows), one.why) for one in removed)])
    if not dry_run and any(one.rows for one in removed):
        say("The room is used again for what comes; the file does not shrink, a backup of it does.")
    return 0


async def _prune(settings: "DatabaseSettings", rules: RetentionRules, now: float, dry_run: bool) -> list[Removed]:
    url = settings.url or default_url(os.environ)
    path = sqlite_path(full_url(url))
    if path is not None and not path.exists():
        raise OperatorError(f"There is no database {path}: nothing was kept yet. Is this the configuration you mean?")
    async with open_database(url, settings.chain_key) as database:
        if dry_run:
            return await would_prune(database.engine, rules, now=now)
        return await prune_rows(database.engine, database.audit, rules, now=now)
