"""The ids of sessions: sealed, so that each replica of a group can take a session up, also after a restart.

Law: an id is good for the agent and the key, or the owner of the token, that it was made for, and nothing in it is
believed that was not signed with the key of the group.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.dialects.names import Schemas
from aggregator.domain.abilities import HostCapabilities, abilities_of, declared
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.versions import LATEST_LEGACY, LEGACY_VERSIONS
from aggregator.gateway.dotless_hosts import refuses_dots
from aggregator.gateway.host import NO_WISHES, AddressWishes, Host
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.shared_key import SharedKey
from aggregator.wire.codec import decode, encode

# What an id is made of, without and with the owner of a token. Ids of another make are not known.
_GENERATION: Final = 1
_OF_A_TOKEN: Final = 2
LONGEST: Final = 1024
LIFETIME: Final = 7 * 24 * 3600.0
# Characters, and bytes in JSON, that are kept of what a host says of itself.
_NAME: Final = 64
_VERSION: Final = 32
_BYTES: Final = 200
_PARTS: Final = 3
# By their numbers in an id: new ones come last.
_DIALECTS: Final[tuple[Schemas, ...]] = (*("original", "portable", "anthropic", "openai", "openai-strict", "gemini"),)


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The facts that an id states. `name` names the session; `made_by` is the replica that opened it; `created` is in
    seconds since 1970. `dialect` is the one of its lists, `wishes` are those of the address that it was opened at.
    `bearer` is a digest of the person and the program whose token opened it.
    """

    name: str
    agent_id: str
    key_id: str | None
    version: str
    abilities: HostCapabilities
    dotless: bool
    dialect: Schemas
    client_info: Mapping[str, Any]
    created: float
    made_by: str
    bearer: str | None = None
    wishes: AddressWishes = NO_WISHES

    def is_of(self, principal: Principal) -> bool:
        """Return whether the session was opened by this agent, with this key or a token of this person and program."""
        mine, others = (
            (self.agent_id, self.key_id, self.bearer),
            (principal.agent_id, principal.key_id, _bearer(principal)),
        )
        return mine == others

    def host(self, names: Style | None, principal: Principal, schemas: Schemas | None = None) -> Host:
        """Return the host of the session, as after its handshake."""
        host = Host(
            "http", names, principal, version=self.version, initialized=True, wishes=self.wishes, schemas=schemas
        )
        host.capabilities = declared(self.abilities, alone=True)
        host.set_client_info(self.client_info)
        host.dialect, host.lists_all = self.dialect, host.lists_all and self.dialect == "portable"
        if host.names is None:
            # Not by `client_info`, which may have been cut.
            host.style = "compatible" if self.dotless else "canonical"
        return host


class SessionIds:
    """The making and reading of ids. `me` is this replica; an id can be taken up for `lifetime` seconds."""

    def __init__(self, key: SharedKey, clock: GroupClock, lifetime: float = LIFETIME, me: str = "") -> None:
        self._key = key
        self._clock = clock
        self._lifetime = lifetime
        self._me = me

    def issue(self, host: Host) -> tuple[str, SessionFacts]:
        """Return a new id for the session of a host, and the facts in it."""
        principal, version, wished = host.principal, host.version or LATEST_LEGACY, host.wishes.names
        facts = SessionFacts(
            name=secrets.token_urlsafe(16),
            agent_id=principal.agent_id,
            key_id=principal.key_id,
            version=version,
            abilities=abilities_of(version, host.capabilities),
            dotless=refuses_dots(host.client_info) if wished is None else wished == "compatible",
            dialect=host.dialect,
            client_info=_short(host.client_info),
            created=float(int(self._clock.now())),
            made_by=self._me,
            bearer=_bearer(principal),
            wishes=host.wishes,
        )
        stated = f"{facts.name}.{_base64(encode(_listed(facts)))}"
        return f"{stated}.{_signature(self._key.derive('sessions'), stated)}", facts

    def read(self, session_id: str) -> SessionFacts | None:
        """Return what an id says; None if it was not made here, or is too old."""
        if len(session_id) > LONGEST or not session_id.isascii() or session_id.count(".") != _PARTS - 1:
            return None
        stated, _, signature = session_id.rpartition(".")
        good = [_signature(key, stated) for key in self._key.derive_all("sessions")]
        if not any(hmac.compare_digest(one, signature) for one in good):
            return None
        name, _, body = stated.partition(".")
        facts = _read(name, decode(base64.urlsafe_b64decode(f"{body}==")))
        return facts if facts is not None and self._clock.now() < self.expiry(facts) else None

    def now(self) -> float:
        """Return the time by the group's clock."""
        return self._clock.now()

    def expiry(self, facts: SessionFacts) -> float:
        """Return until when the id can be taken up, in seconds since 1970."""
        return facts.created + self._lifetime


def _short(client_info: Mapping[str, Any]) -> dict[str, str]:
    """Return the name and the version that a host gives itself, cut to their size."""
    found = {}
    for member, most in (("name", _NAME), ("version", _VERSION)):
        text = client_info.get(member)
        if isinstance(text, str):
            text = text.encode("utf-8", "replace").decode()[:most]
            while len(encode(text)) > _BYTES:
                text = text[: len(text) // 2]
            found[member] = text
    return found


def _listed(facts: SessionFacts) -> list[Any]:
    # Processes of earlier versions read the first bits, and so spell names alike.
    flags = (*facts.abilities, facts.dotless, facts.wishes.names is not None, facts.wishes.schemas is not None)
    can = sum(able << place for place, able in enumerate(flags)) | _DIALECTS.index(facts.dialect) << len(flags)
    named = [facts.client_info.get(member) for member in ("name", "version")]
    listed = [facts.agent_id, facts.key_id, facts.version, can, *named, int(facts.created), facts.made_by]
    return [_GENERATION, *listed] if facts.bearer is None else [_OF_A_TOKEN, *listed, facts.bearer]


def _read(name: str, listed: Any) -> SessionFacts | None:
    """Return what an id says that we signed; None for one of another generation."""
    if not isinstance(listed, list) or listed[:1] not in ([_GENERATION], [_OF_A_TOKEN]):
        return None
    _, agent_id, key_id, version, can, client, client_version, created, made_by, *bearer = listed
    if version not in LEGACY_VERSIONS:
        return None
    count = len(HostCapabilities._fields) + 3
    *able, dotless, wished, wished_dialect = (bool(can >> place & 1) for place in range(count))
    if can >> count >= len(_DIALECTS):
        # Of a later version.
        return None
    dialect = _DIALECTS[can >> count]
    names: Style | None = ("compatible" if dotless else "canonical") if wished else None
    said = {"name": client, "version": client_version}
    return SessionFacts(
        name=name,
        agent_id=agent_id,
        key_id=key_id,
        version=version,
        abilities=HostCapabilities(*able),
        dotless=dotless,
        dialect=dialect,
        client_info={member: text for member, text in said.items() if text is not None},
        created=float(created),
        made_by=made_by,
        bearer=bearer[0] if bearer else None,
        wishes=AddressWishes(names, dialect if wished_dialect else None),
    )


def _bearer(principal: Principal) -> str | None:
    """Return a digest of who a token stands for, since names of people may be long."""
    token = principal.token
    return _base64(hashlib.sha256(encode(token.bearer)).digest()) if token is not None else None


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _signature(key: bytes, stated: str) -> str:
    return _base64(hmac.digest(key, stated.encode(), hashlib.sha256))
