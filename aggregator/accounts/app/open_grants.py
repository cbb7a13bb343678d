"""The grants of a program: built for a running gateway, or opened for one command.

Importing this imports `cryptography`, which is slow, so that it is imported only if a server has `auth`.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aggregator.accounts.grants.grants import Grants
from aggregator.accounts.grants.ports import GrantSettings, HideCredentials, TokenEventKind, TokenEvents
from aggregator.audit.single_event import note
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.call_record import AuditEvent
from aggregator.domain.grant_owner import GrantOwner
from aggregator.redaction.redactor import Redactor
from aggregator.storage.errors import StorageError
from aggregator.storage.lazy_database import LazyDatabase
from aggregator.storage.locate import default_url, full_url, sqlite_path
from aggregator.upstream.late_secrets import LateSecrets
from aggregator.upstream.redaction import ServerRedaction

log = logging.getLogger(__name__)


def build_grants(
    config: Config,
    find: Callable[[str], ServerConfig | None],
    database: LazyDatabase,
    secrets: LateSecrets,
    redactor: Redactor,
    events: TokenEvents | None = None,
) -> Grants:
    """Return the grants of a process. find: a server of the configuration in force, by its id."""
    path = sqlite_path(full_url(database.url)) if database.url is not None else None
    completing, hide = _completing(secrets, redactor), _hiding(redactor)
    settings = GrantSettings(find, completing, config.auth, _document(config), hide=hide)
    return Grants(settings, database, path, events)


def _completing(secrets: LateSecrets, redactor: Redactor) -> Callable[[ServerConfig], Awaitable[ServerConfig]]:
    async def complete(server: ServerConfig) -> ServerConfig:
        return await secrets.complete(server, ServerRedaction(Redactor(), redactor, server=server.id))

    return complete


def _hiding(redactor: Redactor) -> HideCredentials:
    async def hide(source: str, named: Mapping[str, str], /) -> None:
        if not redactor.knows_credentials(source, named):
            await asyncio.to_thread(redactor.learn_credentials, source, named)

    return hide


def _document(config: Config) -> str | None:
    """Return the address of the aggregator's client id metadata document, if it has one."""
    public = config.http.public_url
    if config.auth.client_id_url is not None or public is None or not public.startswith("https://"):
        return config.auth.client_id_url
    return f"{public.rstrip('/')}/oauth/client.json"


@asynccontextmanager
async def open_grants(loaded: Loaded) -> AsyncIterator[Grants]:
    """Give the grants of a configuration to a command; a running gateway learns of changes within a second."""
    config = loaded.config
    servers = {server.id: server for server in config.servers}
    database = LazyDatabase(loaded.storage or default_url(os.environ), config.audit.chain_key)
    events = _CommandEvents()
    async with database:
        secrets = LateSecrets(config.secrets.timeout)
        grants = build_grants(config, servers.get, database, secrets, Redactor(), events)
        try:
            async with grants.running():
                yield grants
        finally:
            await events.write(database)


class _CommandEvents:
    """The token events of one command, written into the audit at its end."""

    def __init__(self) -> None:
        self._events: list[AuditEvent] = []

    def token_event(
        self, kind: TokenEventKind, said: str, server: str, owner: GrantOwner, details: Mapping[str, Any]
    ) -> None:
        """See `TokenEvents`."""
        agent = owner.names[1] if owner.kind == "agent" else None
        found = {"what": kind, "owner": str(owner), **details}
        self._events.append(AuditEvent("account", time.time(), said, agent, server, found))

    async def write(self, database: LazyDatabase) -> None:
        """Write them; a failure is only logged, since the events have happened."""
        try:
            for event in self._events:
                await note(await database.audit_rows(), event)
        except StorageError as error:
            log.error("it is done, but the audit log does not say so: %s", error)
