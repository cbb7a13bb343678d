"""Accounts at servers: the key that encrypts tokens, the issuers, and the address at which users connect."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aggregator.doctor.finding import CheckFinding, found
from aggregator.domain.shell import keep_private
from aggregator.system.file_rights import CLOSED, OpenTo, said_of


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """The facts about accounts. `place` is the configuration, `servers` have `auth`.

    `key_file` is the file of the key beside an SQLite database, None if `auth.vault_key` or another database counts;
    `key_mode` is None if it does not exist, and `key_others` have rights to it on Windows. `has_key`: `auth.vault_key`
    is set. `grants` are stored accounts. `issuers` have unusable metadata, each with the reason. `reached`: remote
    users enter by `public_url`, and connect their own accounts at `personal`.
    """

    place: str
    servers: Sequence[str] = ()
    key_file: Path | None = None
    key_mode: int | None = None
    key_others: OpenTo = CLOSED
    has_key: bool = False
    grants: int = 0
    issuers: Sequence[tuple[str, str]] = ()
    personal: Sequence[str] = ()
    reached: bool = False
    public_url: str | None = None


def of_accounts(facts: AccountFacts) -> Iterator[CheckFinding]:
    """Yield the findings about accounts."""
    yield from _of_key(facts)
    for issuer, reason in facts.issuers:
        yield found(
            "issuer_unreadable",
            f"The metadata of the issuer {issuer} cannot be used: {reason}.",
            "Write the issuer as its metadata names it, to the last character; or have its address answer here.",
            facts.place,
        )
    if facts.personal and facts.reached and not (facts.public_url or "").startswith("https://"):
        said = "`http.public_url` is not set" if facts.public_url is None else "`http.public_url` is not https://"
        yield found(
            "public_url_missing",
            f"{said}, so people on other machines cannot connect their accounts at {', '.join(facts.personal)}.",
            "Set `http.public_url` to the https:// address that people reach the aggregator at.",
            facts.place,
        )


def _of_key(facts: AccountFacts) -> Iterator[CheckFinding]:
    if facts.has_key:
        return
    if facts.key_file is None:
        if facts.servers:
            yield found(
                "vault_key_needed",
                f"Tokens are kept encrypted, and there is no key, so {', '.join(facts.servers)} cannot be used.",
                "Set `auth.vault_key` to a secret of 32 characters or more, such as `${file:/run/secrets/vault-key}`.",
                facts.place,
            )
    elif facts.key_mode is None:
        if facts.grants:
            yield found(
                "vault_key_missing",
                f"{facts.key_file} is gone, so the tokens of {facts.grants} connected accounts cannot be read.",
                "Put it back from where you keep a copy; without one, connect each account again with "
                "`aggregator connect SERVER`.",
                facts.key_file,
            )
    elif facts.key_mode & 0o077:
        yield found(
            "vault_key_open",
            f"Other users can read {facts.key_file}, the key of the tokens (mode {facts.key_mode:o}).",
            f"Run `{keep_private(facts.key_file)}`.",
            facts.key_file,
            safe=True,
        )
    elif facts.key_others.readers:
        yield found(
            "vault_key_open",
            f"{said_of(facts.key_others.readers)} can read {facts.key_file}, the key of the tokens.",
            f"Run `{keep_private(facts.key_file, windows=True)}`.",
            facts.key_file,
        )
