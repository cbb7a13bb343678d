"""What the vault holds is of no use without its key, nor for another row."""

import asyncio
import logging
import os
import stat
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.accounts.grants import store
from aggregator.accounts.grants.account import Account
from aggregator.accounts.grants.sealing import SealBroken, Sealer, VaultKeyMissing, vault_secret
from aggregator.accounts.oauth.registration import Registration
from aggregator.domain.missing import LoginRequired
from aggregator.domain.principal import Principal
from tests.grants.harness import REDIRECT, VAULT_KEY, Accounts, Events, owner, process, server_config

TEXTS = st.text(max_size=40)


@given(table=TEXTS, row=TEXTS, other=TEXTS, value=st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_a_sealed_value_is_opened_for_its_row_alone(table: str, row: str, other: str, value: dict[str, str]) -> None:
    sealer = Sealer(VAULT_KEY)
    sealed = sealer.seal(table, row, value)
    assert sealer.open(table, row, sealer.key_id, sealed) == value
    for place in ((table, other), (other, row)):
        if place != (table, row):
            with pytest.raises(SealBroken):
                sealer.open(*place, sealer.key_id, sealed)
    with pytest.raises(SealBroken):
        Sealer("another secret of more than 32 characters").open(table, row, sealer.key_id, sealed)
    for broken in ("", "????", sealed[:-8], sealed[4:]):
        with pytest.raises(SealBroken):
            sealer.open(table, row, sealer.key_id, broken)


async def test_a_key_is_made_once_for_this_user_alone(tmp_path: Path) -> None:
    database = tmp_path / "new" / "aggregator.db"
    made = await asyncio.gather(*(asyncio.to_thread(vault_secret, None, database) for _ in range(8)))
    path = database.with_name("aggregator.db.vault-key")
    assert set(made) == {path.read_text().strip()}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == [path.name]


def test_a_key_that_is_none_is_said(tmp_path: Path) -> None:
    database = tmp_path / "aggregator.db"
    (tmp_path / "aggregator.db.vault-key").write_text("short\n")
    with pytest.raises(VaultKeyMissing, match="no key of 32 characters"):
        vault_secret(None, database)
    with pytest.raises(VaultKeyMissing, match=r"auth\.vault_key"):
        vault_secret(None, None)


async def test_no_token_is_in_a_file_a_log_or_an_event(
    here: Accounts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    link = await here.connect("alice")
    here.idp.before.clear()
    await here.age("alice", 3600)
    header = await here.header("alice")
    assert header is not None
    waiting = await here.grants.begin(here.config, owner("bob"), Principal("bob"))
    url = await here.grants.start(waiting.code, "http://127.0.0.1:1/connect/callback", "browser-secret-of-bob")
    secrets = {waiting.code, "browser-secret-of-bob", url.split("state=")[1].split("&")[0]}
    for grant in here.idp.grants:
        secrets |= {*grant.access, *grant.refresh}
    secrets |= {client.secret for client in here.idp.clients.values() if client.secret}
    assert len(secrets) > 5
    said = "\n".join((caplog.text, repr(here.events.seen), repr(await here.grants.list()), repr(link), repr(waiting)))
    said += repr(here.credentials("alice")) + repr(here.credentials("alice")._token)
    everything = said.encode() + await asyncio.to_thread(_files, tmp_path)
    for secret in secrets:
        assert secret.encode() not in everything


async def test_another_address_or_issuer_never_gets_a_token(here: Accounts) -> None:
    await here.connect("alice")
    assert await here.header("alice") is not None
    for other in (
        server_config(f"{here.server.address}/other"),
        server_config("http://127.0.0.1:9/mcp"),
        server_config(here.server.url, issuer="https://other.example"),
        server_config(here.server.url, client_id="another"),
    ):
        async with process(here.url, other, Events()) as changed:
            credentials = changed.credentials(other, owner("alice"))
            await credentials.ready()
            assert credentials.header is None
            with pytest.raises(LoginRequired):
                await credentials.refused(None, 401, ["Bearer"])


def _files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("later", "issuer", "redirect", "known"),
    [
        (0.0, "https://as", REDIRECT, True),
        (99.9, "https://as", REDIRECT, True),
        (100.0, "https://as", REDIRECT, False),
        (0.0, "https://other", REDIRECT, False),
        (0.0, "https://as", f"{REDIRECT}/other", False),
    ],
)
async def test_a_client_id_is_used_until_it_ends(
    here: Accounts, monkeypatch: pytest.MonkeyPatch, later: float, issuer: str, redirect: str, known: bool
) -> None:
    """At its issuer, for the address it was registered with; one without an end lasts."""
    now = time.time()
    grants = here.grants._store
    client = Registration("https://as", "us", redirect_uris=(REDIRECT,), kind="dynamic", expires=now + 100.0)
    lasting = Registration("https://lasting", "us", redirect_uris=(REDIRECT,), kind="dynamic")
    for one in (client, lasting):
        await grants.put_client(one, REDIRECT)
    monkeypatch.setattr(store, "time", SimpleNamespace(time=lambda: now + later))
    assert await grants.client(issuer, redirect) == (client if known else None)
    assert await grants.client("https://lasting", REDIRECT) == lasting
    await grants.forget_client("https://as", REDIRECT)
    assert await grants.client("https://as", REDIRECT) is None


def test_an_address_is_compared_by_a_digest() -> None:
    """Its query may be secret; spellings of one address are the same account, and other addresses are not."""
    secret = "k3y-in-the-query"
    url = f"https://docs.example/mcp?key={secret}"
    one, same, other = (
        Account(server_config(address), owner("ada")).resource_digest
        for address in (url, url.replace("docs", "DOCS"), url.replace("/mcp", "/other"))
    )
    assert len(one) == 64
    assert secret not in one
    assert one == same != other
