"""`aggregator secrets test`: resolves every reference of the servers once, and says which have no value."""

import json
import sys
from pathlib import Path

from aggregator.cli.runtime.setup import load_config
from aggregator.cli.runtime.tables import one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.cli.secrets.manage import references_of
from aggregator.secret_sources.reference import SecretReference, SecretUnavailable
from aggregator.secret_sources.values import value_of


def run(path: Path | None, as_json: bool) -> int:
    """Print a row for each reference; return 1 if one has no value. What it is, is not printed."""
    loaded = load_config(path, log_level="error")
    users: dict[SecretReference, list[str]] = {}
    for server in loaded.config.servers:
        for reference in references_of(server):
            users.setdefault(reference, []).append(server.id)
    problems: dict[SecretReference, str] = {}
    for reference in users:
        try:
            loaded.redactor.add([value_of(reference, loaded.config.secrets.timeout)])
        except SecretUnavailable as error:
            problems[reference] = f"{error.message} {error.fix}"
    if as_json:
        found = [
            {"reference": one.shown, "servers": servers, "problem": problems.get(one)} for one, servers in users.items()
        ]
        say(loaded.redactor(json.dumps(found, ensure_ascii=False, indent=2)))
        return 1 if problems else 0
    if not users:
        say("No server refers to a secret.", file=sys.stderr)
        return 0
    rows = [("REFERENCE", "SERVERS", "STATE")]
    rows += [
        (one_line(one.shown), ", ".join(servers), one_line(problems.get(one, "has a value")))
        for one, servers in users.items()
    ]
    print_rows(rows)
    return 1 if problems else 0
