"""The accounts that are in the database, for a command that connects servers without keeping anything itself."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final

from aggregator.config.load import Loaded
from aggregator.storage.locate import default_url, full_url, sqlite_path

if TYPE_CHECKING:
    from aggregator.accounts.grants.grants import Grants

# Loaded if a server has `auth`: `cryptography` takes 50 ms.
_OPEN: Final = "aggregator.accounts.app.open_grants:open_grants"
# As in `aggregator.accounts.grants.sealing`.
_KEY: Final = ".vault-key"


@asynccontextmanager
async def stored_accounts(loaded: Loaded) -> AsyncIterator["Grants | None"]:
    """Give the connected accounts of servers; None if there are none, without creating a database for that.

    A server that gets its tokens without a user needs a database to store them, so that one is created.
    """
    auths = [server.auth for server in loaded.config.servers if server.enabled and server.auth is not None]
    if not auths or (all(auth.how.by_person for auth in auths) and not _is_there(loaded)):
        yield None
        return
    open_grants: Callable[[Loaded], AbstractAsyncContextManager[Grants]] = resolve_name(_OPEN)
    async with open_grants(loaded) as opened:
        yield opened


def _is_there(loaded: Loaded) -> bool:
    """Tell whether there is a database with its key; a database server counts as one."""
    path = sqlite_path(full_url(loaded.storage or default_url(os.environ)))
    if path is None:
        return True
    return path.exists() and (loaded.config.auth.vault_key is not None or path.with_name(path.name + _KEY).exists())
