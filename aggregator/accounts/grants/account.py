"""The account of one owner at one server, as the server is configured now."""

from dataclasses import dataclass, field

from aggregator.accounts.config import ServerAuthConfig
from aggregator.accounts.oauth.discovery import canonical_resource
from aggregator.accounts.oauth.registration import ConfiguredClient
from aggregator.accounts.oauth.targets import without_query
from aggregator.accounts.storage.records import digest_of
from aggregator.config.server_config import ServerConfig
from aggregator.domain.grant_owner import GrantOwner, credentials_source


@dataclass(frozen=True, slots=True)
class Account:
    """An account. server: its configuration, with the values of its secrets; it has `url` and `auth`."""

    server: ServerConfig = field(repr=False)
    owner: GrantOwner

    @property
    def id(self) -> str:
        """The digest of server and owner."""
        return account_id(self.server.id, self.owner)

    @property
    def source(self) -> str:
        """The source of its credentials, for redaction."""
        return credentials_source(self.server.id, self.owner)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self.server.url or ""

    @property
    def auth(self) -> ServerAuthConfig:
        """The settings by which tokens are got for the server."""
        assert self.server.auth is not None, "accounts are for servers with `auth`"
        return self.server.auth

    @property
    def shown(self) -> str:
        """The address of the server without its query, which may be secret."""
        return without_query(canonical_resource(self.url))

    @property
    def resource_digest(self) -> str:
        """The digest that the address of the server is compared by."""
        return digest_of(canonical_resource(self.url))

    @property
    def client(self) -> ConfiguredClient | None:
        """The client id that the operator configured, if any."""
        auth = self.auth
        if auth.client_id is None:
            return None
        return ConfiguredClient(auth.client_id, auth.client_secret, auth.private_key)

    def row_id(self, issuer: str) -> str:
        """Return the id of the grant of one issuer."""
        return digest_of(self.server.id, canonical_resource(self.url), issuer, self.owner.key)


def account_id(server: str, owner: GrantOwner) -> str:
    """Return the key of the grants of one owner for one server."""
    return digest_of(server, owner.key)
