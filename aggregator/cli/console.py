"""`aggregator console`: signs the user of this machine in at the console of a running gateway, by a link."""

import os
import sys
import time
import webbrowser
from http.client import HTTPException
from pathlib import Path
from typing import Final, cast, get_args

from aggregator.app.health_page import asked
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.record_change import noted, operator
from aggregator.cli.runtime.setup import configured_database
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.cli.status import address_of
from aggregator.domain.errors import OperatorError
from aggregator.domain.text.error_text import error_text
from aggregator.storage.console_sessions import LINK_FOR, new_secret
from aggregator.storage.database import open_database
from aggregator.storage.locate import default_url
from aggregator.storage.records import ConsoleRole

_LONGEST_NAME: Final = 60


def run(path: Path | None, url: str | None, role: str, person: str | None, browser: bool) -> int:
    """Print a link that is valid once, for a minute, and open it in the browser if there is one.

    Raises:
        OperatorError: no gateway answers, the role is unknown, or the database cannot be used.
    """
    if role not in get_args(ConsoleRole):
        raise OperatorError(f"There is no role {role!r:.20}; there are {', '.join(get_args(ConsoleRole))}.")
    name = one_line(person or operator().removeprefix("cli:"))[:_LONGEST_NAME].strip()
    base, tls = address_of(path, url)
    try:
        asked(base, tls)
    except (OSError, HTTPException, ValueError) as error:
        why = one_line(error_text(error))
        raise OperatorError(
            f"No aggregator answers at {base} ({why}). Start one with `aggregator serve`, or name another address "
            "with --url."
        ) from error
    settings, secret = configured_database(path), new_secret()
    storage = settings.url or default_url(os.environ)
    run_loop(_made(storage, settings.chain_key, secret, name, cast("ConsoleRole", role), settings.audited))
    link = f"{base}/console/enter/{secret}"
    say(link)
    say(f"Good once, for {LINK_FOR:.0f} seconds: it signs in {name} as {role}.", file=sys.stderr)
    if browser and _has_display():
        webbrowser.open(link)
    return 0


async def _made(
    storage: str, chain_key: str | None, secret: str, person: str, role: ConsoleRole, audited: bool
) -> None:
    async with open_database(storage, chain_key) as database:
        await database.console.add_link(secret, person, role, now=time.time())
        if audited:
            said = f"A link to sign in at the console was made for {person} as {role}."
            await noted(database, "console", said, None, by=operator(), action="link", person=person, role=role)


def _has_display() -> bool:
    """Return whether a browser would open in a window: one in this terminal is not wanted."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
