"""The vault as values: stored values are sealed here, and read values are opened here.

Law: a grant is found only for its original server, server address, issuer and owner.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.accounts.grants.account import Account, account_id
from aggregator.accounts.grants.sealing import SealBroken, Sealer, vault_secret
from aggregator.accounts.grants.tokens import GrantTokens
from aggregator.accounts.oauth.registration import Registration
from aggregator.accounts.storage.records import ClientRecord, ConnectRecord, GrantRecord, digest_of
from aggregator.domain.grant_owner import GrantOwner
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.accounts.storage.vault import Vault
    from aggregator.storage.opening import Database

log = logging.getLogger(__name__)

_GRANTS: Final = "oauth_grants"
_CLIENTS: Final = "oauth_clients"
_CONNECTS: Final = "oauth_connects"
UNREADABLE: Final = "what is stored of it cannot be decrypted with the vault key of now"


class VaultDatabase(Protocol):
    """The database of the vault; `open` returns None if there is none."""

    async def open(self) -> "Database | None": ...


@dataclass(frozen=True, slots=True)
class StoredGrant:
    """A stored grant. tokens: None if they cannot be decrypted; `record.problem` has the reason."""

    record: GrantRecord
    tokens: GrantTokens | None


class GrantStore:
    """The vault of one process. Its methods raise StorageError, and VaultKeyMissing without a key."""

    def __init__(self, database: VaultDatabase, vault_key: str | None, path: Path | None) -> None:
        self._database = database
        self._vault_key = vault_key
        self._path = path
        self._sealer: Sealer | None = None
        self._reading = asyncio.Lock()
        # Identifies this process in its notifications to others.
        self.process: Final = secrets.token_hex(8)
        self._said: set[str] = set()

    async def vault(self) -> "Vault":
        """Return the tables."""
        database = await self._database.open()
        if database is None:
            raise StorageError("Accounts cannot be kept without a database: set `storage`.")
        return database.vault

    async def sealer(self) -> Sealer:
        """Return the key, which is read or made when it is first needed."""
        async with self._reading:
            if self._sealer is None:
                secret = await asyncio.to_thread(vault_secret, self._vault_key, self._path)
                self._sealer = Sealer(secret)
            return self._sealer

    # -- grants

    async def find(self, account: Account) -> StoredGrant | None:
        """Return the grant of an account, if there is one for the server's current configuration."""
        vault, sealer = await self.vault(), await self.sealer()
        for record in await vault.grants.of_account(account.id):
            issuer = account.auth.issuer
            if record.resource_digest == account.resource_digest and issuer in (None, record.issuer):
                stored = self._opened(sealer, record)
                if record.id == account.row_id(record.issuer) and self._is_of_client(account, stored):
                    return stored
        return None

    def _is_of_client(self, account: Account, stored: StoredGrant) -> bool:
        """Return False for a grant of another client id than the one that is configured."""
        wanted = account.auth.client_id
        return wanted is None or stored.tokens is None or stored.tokens.client.client_id == wanted

    def opened(self, sealer: Sealer, record: GrantRecord) -> StoredGrant:
        """Return a grant with its tokens."""
        return self._opened(sealer, record)

    def _opened(self, sealer: Sealer, record: GrantRecord) -> StoredGrant:
        try:
            kept = sealer.open(_GRANTS, record.id, record.key_id, record.sealed)
            return StoredGrant(record, GrantTokens.from_json(kept))
        except (SealBroken, KeyError, TypeError, AttributeError) as error:
            if record.id not in self._said:
                self._said.add(record.id)
                log.error("the account of %s at %s cannot be used: %s", record.owner, record.server, UNREADABLE)
                log.debug("a grant cannot be opened: %s", type(error).__name__)
            return StoredGrant(record, None)

    async def put(self, account: Account, tokens: GrantTokens) -> GrantRecord:
        """Store a user's grant."""
        vault, sealer = await self.vault(), await self.sealer()
        record = self._record(sealer, account, tokens)
        await vault.grants.put(record, self.process)
        return record

    def _record(self, sealer: Sealer, account: Account, tokens: GrantTokens) -> GrantRecord:
        id, now = account.row_id(tokens.issuer.issuer), time.time()
        return GrantRecord(
            id=id,
            account=account.id,
            server=account.server.id,
            resource=account.shown,
            resource_digest=account.resource_digest,
            issuer=tokens.issuer.issuer,
            owner=account.owner.key,
            scopes=tokens.scopes,
            problem=None,
            expires=tokens.expires,
            renewable=tokens.refresh is not None,
            created=now,
            updated=now,
            key_id=sealer.key_id,
            sealed=sealer.seal(_GRANTS, id, tokens.to_json()),
        )

    async def renew(self, before: GrantRecord, tokens: GrantTokens) -> bool:
        """Store new tokens of a grant; False if it has newer ones, or was ended."""
        vault, sealer = await self.vault(), await self.sealer()
        kept = {name: getattr(before, name) for name in GrantRecord.__dataclass_fields__}
        kept |= {
            "scopes": tokens.scopes,
            "problem": None,
            "expires": tokens.expires,
            "renewable": tokens.refresh is not None,
            "updated": time.time(),
            "key_id": sealer.key_id,
            "sealed": sealer.seal(_GRANTS, before.id, tokens.to_json()),
        }
        return await vault.grants.renew(GrantRecord(**kept))

    async def mark(self, record: GrantRecord, problem: str) -> bool:
        """Record that a user has to connect again; False if there are newer tokens by now."""
        return await (await self.vault()).grants.mark(record, problem, self.process)

    async def remove(self, server: str, owner: GrantOwner) -> tuple[StoredGrant, ...]:
        """Remove the grants of an owner for a server, and return them."""
        vault, sealer = await self.vault(), await self.sealer()
        removed = await vault.grants.remove(server, owner.key, account_id(server, owner), self.process)
        return tuple(self._opened(sealer, record) for record in removed)

    # -- client ids

    async def client(self, issuer: str, redirect_uri: str) -> Registration | None:
        """Return the aggregator's client id at an issuer for one redirect address."""
        vault, sealer, id = await self.vault(), await self.sealer(), digest_of(issuer, redirect_uri)
        record = await vault.clients.get(id)
        if record is None or (record.expires is not None and record.expires <= time.time()):
            return None
        try:
            return Registration.from_json(sealer.open(_CLIENTS, id, record.key_id, record.sealed))
        except (SealBroken, KeyError, TypeError):
            return None

    async def put_client(self, client: Registration, redirect_uri: str) -> None:
        """Store a client id."""
        vault, sealer, id = await self.vault(), await self.sealer(), digest_of(client.issuer, redirect_uri)
        sealed = sealer.seal(_CLIENTS, id, client.to_json())
        await vault.clients.put(ClientRecord(id, client.issuer, time.time(), client.expires, sealer.key_id, sealed))

    async def forget_client(self, issuer: str, redirect_uri: str) -> None:
        """Forget a client id that its issuer does not know any more."""
        await (await self.vault()).clients.remove(digest_of(issuer, redirect_uri))

    # -- accounts that are being connected

    async def put_connect(self, code: str, value: Mapping[str, Any], expires: float) -> None:
        """Store the subject of a link."""
        vault, sealer, id = await self.vault(), await self.sealer(), digest_of(code)
        sealed = sealer.seal(_CONNECTS, id, value)
        await vault.connects.put(ConnectRecord(id, None, time.time(), expires, sealer.key_id, sealed))

    async def connect(self, code: str) -> "tuple[ConnectRecord, dict[str, Any]] | None":
        """Return the subject of a link; None if it is unknown or has expired."""
        vault = await self.vault()
        return await self._read_connect(await vault.connects.get(digest_of(code), time.time()))

    async def connect_of_state(self, state: str) -> "tuple[ConnectRecord, dict[str, Any]] | None":
        """Return the subject of the link with this state; None if it is unknown or has expired."""
        vault = await self.vault()
        return await self._read_connect(await vault.connects.of_state(digest_of(state), time.time()))

    async def _read_connect(self, record: ConnectRecord | None) -> "tuple[ConnectRecord, dict[str, Any]] | None":
        if record is None:
            return None
        try:
            return record, (await self.sealer()).open(_CONNECTS, record.id, record.key_id, record.sealed)
        except SealBroken:
            return None

    async def change_connect(self, id: str, value: Mapping[str, Any], state: str | None) -> bool:
        """Store the outcome of a link; False if it has ended meanwhile."""
        vault, sealer = await self.vault(), await self.sealer()
        hashed = digest_of(state) if state is not None else None
        return await vault.connects.begin(id, hashed, sealer.key_id, sealer.seal(_CONNECTS, id, value))


def owner_in(record: GrantRecord) -> GrantOwner | None:
    """Return the owner of a grant; None if another program wrote the row."""
    try:
        return GrantOwner.from_key(record.owner)
    except ValueError:
        return None
