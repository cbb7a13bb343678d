"""The facts about accounts at servers: the key of the tokens, how many there are, and whether issuers answer."""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aggregator.accounts.doctor.checks import AccountFacts
from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.accounts.oauth.metadata import read_issuer
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.identity.source import names_this_machine
from aggregator.storage.locate import full_url, sqlite_path
from aggregator.system.file_rights import CLOSED, rights_of_others

# The suffix of the key file's name, after the database's name.
KEY_SUFFIX: Final = ".vault-key"
_GRANTS: Final = "SELECT count(*) FROM oauth_grants"
_PATIENCE: Final = 2.0
_ISSUERS: Final = 20


async def read_accounts(loaded: Loaded, url: str, *, asks: bool) -> AccountFacts:
    """Return the facts about accounts; with `asks`, about the issuers as well. url: the database."""
    config = loaded.config
    servers = [one for one in config.servers if one.enabled and one.auth is not None]
    path = sqlite_path(full_url(url))
    key = path.with_name(path.name + KEY_SUFFIX) if path is not None else None
    mode, grants = await asyncio.to_thread(_read, path, key)
    personal = [one.id for one in servers if one.auth is not None and one.auth.per != "shared" and _by_person(one)]
    return AccountFacts(
        str(loaded.path),
        [one.id for one in servers],
        key,
        mode,
        rights_of_others(key) if key is not None else CLOSED,
        has_key=config.auth.vault_key is not None,
        grants=grants,
        issuers=await _unreadable(config, servers) if asks else (),
        personal=personal,
        reached=not names_this_machine(config.http.host),
        public_url=config.http.public_url,
    )


def _by_person(server: ServerConfig) -> bool:
    return server.auth is not None and server.auth.how.by_person


def _read(path: Path | None, key: Path | None) -> tuple[int | None, int]:
    """Return the mode of the key file, None if there is none, and the number of stored accounts."""
    if path is None or key is None:
        return None, 0
    try:
        # Elsewhere than on POSIX a mode says nothing of who may read.
        mode: int | None = key.stat().st_mode & 0o777 if os.name == "posix" else (0o600 if key.exists() else None)
    except OSError:
        mode = None
    if not path.exists():
        return mode, 0
    try:
        uri = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE)) as connection:
            return mode, int(connection.execute(_GRANTS).fetchone()[0])
    except sqlite3.Error:
        return mode, 0


async def _unreadable(config: Config, servers: Sequence[ServerConfig]) -> list[tuple[str, str]]:
    """Return the issuers of the configuration whose metadata cannot be used, each with the reason."""
    # An issuer whose keys have their own address gets no other request.
    inbound = [one.issuer for one in config.auth.issuers if one.jwks_url is None]
    fetch = GuardedFetch(config.auth.private_hosts)
    fetches = {
        one.auth.issuer: fetch.within(one.url or "", one.proxy, one.tls)
        for one in servers
        if one.auth is not None and one.auth.issuer is not None
    }
    named = tuple(dict.fromkeys([*inbound, *fetches]))[:_ISSUERS]
    reasons = await asyncio.gather(*(_fault(fetches.get(issuer, fetch), issuer) for issuer in named))
    return [(issuer, reason) for issuer, reason in zip(named, reasons, strict=True) if reason is not None]


async def _fault(fetch: GuardedFetch, issuer: str) -> str | None:
    try:
        await read_issuer(fetch.within(issuer), issuer)
    except FetchFailed as failed:
        return failed.reason.rstrip(".")
    return None
