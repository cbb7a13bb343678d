"""Ways to a real server: passwords, TLS, sockets, several hosts; and what is said where one leads nowhere."""

import asyncio
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from aggregator.config.load import load
from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageBusy, StorageError, StorageReadOnly
from aggregator.storage.records import KeyRecord
from tests.postgres.cluster import USER, Cluster

ODD = "p@ss/w?rd#1:%25 $&=ü"


async def works(url: str) -> None:
    async with open_database(url) as database:
        assert await database.keys.all() == []


def has_ipv6() -> bool:
    """Return whether this machine has an IPv6 loopback."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


async def refusal(url: str) -> str:
    with pytest.raises(StorageError) as raised:
        await works(url)
    return str(raised.value)


@pytest.fixture
def odd_user(postgres_cluster: Cluster, postgres_database: str) -> Iterator[str]:
    name = "ada@corp"
    postgres_cluster.sql(f"CREATE ROLE \"{name}\" LOGIN PASSWORD '{ODD}'")
    postgres_cluster.sql(f'GRANT ALL ON SCHEMA public TO "{name}"', postgres_database)
    yield name
    postgres_cluster.sql(f'DROP OWNED BY "{name}" CASCADE', postgres_database)
    postgres_cluster.sql(f'DROP ROLE "{name}"')


async def test_by_address_name_and_socket(postgres_cluster: Cluster, postgres_database: str) -> None:
    for host in ("127.0.0.1", "localhost", *(["[::1]"] if has_ipv6() else [])):
        await works(postgres_cluster.url(postgres_database, host=host))
    password = quote(postgres_cluster.password)
    folder, port = postgres_cluster.folder, postgres_cluster.port
    await works(f"postgresql://{USER}:{password}@/{postgres_database}?host={folder}&port={port}")
    await works(f"postgresql://{USER}:{password}@{quote(str(folder), safe='')}/{postgres_database}?port={port}")


async def test_odd_characters_in_user_and_password(
    postgres_cluster: Cluster, postgres_database: str, odd_user: str
) -> None:
    await works(postgres_cluster.url(postgres_database, user=odd_user, password=ODD))


async def test_a_pooler_is_given_nothing_to_keep(postgres_cluster: Cluster, postgres_database: str) -> None:
    async with open_database(postgres_cluster.url(postgres_database, pgbouncer="true")) as database:
        await database.keys.add(KeyRecord("k", "bot", "h"))
        async with database.engine.read() as connection:
            kept = await connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''")
            assert kept.scalar_one() <= 1  # the one that asks


async def test_a_password_is_read_again_for_each_connection(
    tmp_path: Path, postgres_cluster: Cluster, postgres_database: str, odd_user: str
) -> None:
    """From a reference, as it is: nothing in it is percent-encoded, and a rotated one counts without a restart."""
    secret = tmp_path / "password"
    secret.write_text(f"{ODD}\n")
    place = f"127.0.0.1:{postgres_cluster.port}/{postgres_database}"
    file = tmp_path / "aggregator.json"
    file.write_text(json.dumps({"storage": f"postgresql://{quote(odd_user)}:${{file:password}}@{place}"}))
    loaded = load(file, {})
    assert loaded.storage is not None
    assert ODD not in repr(loaded) + loaded.storage
    async with open_database(loaded.storage) as database:
        assert await database.keys.all() == []
        assert ODD not in str(loaded.redactor.known(f"it is {ODD}"))
        rotated = "n3w p@ssword"
        postgres_cluster.sql(f"ALTER ROLE \"{odd_user}\" PASSWORD '{rotated}'")
        secret.write_text(rotated)
        postgres_cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ada@corp'")
        await database.engine.raw.dispose()
        assert await database.keys.all() == []
        secret.unlink()
        await database.engine.raw.dispose()
        with pytest.raises(StorageError, match="password of the database cannot be had"):
            await database.keys.all()


async def test_what_is_said_of_a_way_that_leads_nowhere(
    postgres_cluster: Cluster, postgres_database: str, odd_user: str
) -> None:
    """Proves: E1."""
    url = postgres_cluster.url
    wrong = await refusal(url(postgres_database, password="wrong-password"))
    assert "refuses the user 'aggregator'" in wrong
    assert "wrong-password" not in wrong
    assert "has no database 'nowhere'" in await refusal(url("nowhere"))
    assert "does not offer TLS" in await refusal(url(postgres_database, sslmode="require"))
    postgres_cluster.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC", postgres_database)
    postgres_cluster.sql(f'REVOKE CREATE ON SCHEMA public FROM "{odd_user}"', postgres_database)
    said = await refusal(url(postgres_database, user=odd_user, password=ODD))
    assert "may not make or write tables" in said
    assert "127.0.0.1:1 cannot be used now: Connection refused" in await refusal(f"postgresql://{USER}@127.0.0.1:1/x")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate for `localhost` alone, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    files = ("-keyout", folder / "server.key", "-out", folder / "server.crt", "-addext", "subjectAltName=DNS:localhost")
    subprocess.run([*made, *files], check=True, capture_output=True)
    return folder


@pytest.fixture
def tls(postgres_cluster: Cluster, authority: Path) -> Iterator[Path]:
    """A cluster that offers TLS, and demands it for other users than ours; the certificate of its authority."""
    cluster = postgres_cluster
    for name in ("server.key", "server.crt"):
        target = cluster.data / name
        target.write_bytes((authority / name).read_bytes())
        target.chmod(0o600)
        cluster.own(target)
    access = cluster.data / "pg_hba.conf"
    before = access.read_text()
    access.write_text(before.replace("host    all          all       127.", "hostssl all          all       127."))
    cluster.stop()
    cluster.start({"ssl": "on"})
    yield authority / "server.crt"
    access.write_text(before)
    cluster.restart()


async def test_tls(tls: Path, postgres_cluster: Cluster, postgres_database: str, tmp_path: Path) -> None:
    """As libpq does it, and as SQLAlchemy's users write it.

    Proves: E1
    """

    def url(host: str = "localhost", **query: str) -> str:
        return postgres_cluster.url(postgres_database, host=host, **query)

    await works(url(sslmode="require"))
    await works(url(ssl="true"))
    await works(url(sslmode="verify-full", sslrootcert=str(tls)))
    await works(url("127.0.0.1", sslmode="verify-ca", sslrootcert=str(tls)))
    assert "not accepted" in await refusal(url("127.0.0.1", sslmode="verify-full", sslrootcert=str(tls)))
    assert "not accepted" in await refusal(url(sslmode="verify-full", sslrootcert="system"))
    said = await refusal(url("127.0.0.1", sslmode="disable"))
    assert "pg_hba.conf" in said
    assert "sslmode=require" in said
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    assert "TLS" in await refusal(url(sslmode="verify-full", sslrootcert=str(broken)))


async def test_a_standby_is_named_and_a_new_primary_is_found(postgres_cluster: Cluster, postgres_database: str) -> None:
    """Of several hosts, the one that takes writes is used; after a failover the other one, without a restart."""
    with postgres_cluster.standby() as standby:
        with pytest.raises(StorageReadOnly, match="takes no writes: it is a standby"):
            await works(standby.url(postgres_database))
        both = f"127.0.0.1:{standby.port},127.0.0.1:{postgres_cluster.port}"
        login = f"{USER}:{quote(postgres_cluster.password)}"
        async with open_database(f"postgresql://{login}@{both}/{postgres_database}") as database:
            await database.keys.add(KeyRecord("before", "bot", "h"))
            caught_up = "SELECT pg_current_wal_lsn() = replay_lsn FROM pg_stat_replication"
            while (await asyncio.to_thread(postgres_cluster.sql, caught_up)) != "t":
                pass
            await asyncio.to_thread(postgres_cluster.stop)
            with pytest.raises(StorageBusy):
                await database.keys.add(KeyRecord("between", "bot", "h"))
            await asyncio.to_thread(standby.promote)
            await database.keys.add(KeyRecord("after", "bot", "h"))
            assert {key.key_id for key in await database.keys.all()} == {"before", "after"}
