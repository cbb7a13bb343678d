"""The URL of a PostgreSQL database, in the form of libpq and its programs, parsed for the driver.

Rule: no message repeats the URL, which may contain a password.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from aggregator.secret_sources.deferred_url import DeferredUrl, PasswordSource
from aggregator.storage.errors import StorageError

SCHEME: Final = "postgresql+asyncpg"
PORT: Final = 5432
# Seconds for a connection to one host.
CONNECTING: Final = 5.0
# Options that the driver reads from a URL, as libpq does.
_OF_THE_DRIVER: Final = frozenset({"passfile", "service", "krbsrvname", "gsslib", "target_session_attrs"})
_TLS: Final = frozenset({"sslmode", "sslnegotiation", "sslpassword"}).union(
    ("ssl_min_protocol_version", "ssl_max_protocol_version")
)
_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
# Settings of the server for each connection.
_OF_THE_SERVER: Final = frozenset({"application_name", "options", "search_path"})
# Options of libpq that the driver has no use for; with `require`, the first two would be a promise that is not kept.
_IDLE: Final = frozenset({"channel_binding", "gssencmode", "sslsni", "sslcompression", "client_encoding"}).union(
    (
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
        "load_balance_hosts",
    )
)
_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
# Other programs' words for a pooler between us and the server, with 0 for "no statement is kept".
_CACHES: Final = ("statement_cache_size", "prepared_statement_cache_size")
_ENCODE: Final = "write @ : / ? # % in a user or password as %40 %3A %2F %3F %23 %25, or take it from ${file:PATH}"


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """A database server, its database and the connection settings.

    dsn: for the driver, without hosts and password; `hosts`: each with its port; a folder contains a socket. password:
    None if the URL has none; `ask`: a source called for each connection. pooled: a pooler gives each transaction
    another session, so that no state may be kept in one. connecting: seconds for a connection to one host. trusted: the
    certificate authorities of this machine vouch for the server.
    """

    dsn: str = field(repr=False)
    hosts: tuple[tuple[str, int], ...]
    user: str
    database: str
    password: str | None = field(repr=False)
    ask: PasswordSource | None = field(repr=False)
    pooled: bool
    connecting: float
    trusted: bool

    @property
    def where(self) -> str:
        """The hosts with their ports, for display."""
        return ", ".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)


def postgres_url(url: str) -> PostgresUrl:
    """Return a full URL, parsed.

    Raises:
        StorageError: it is invalid, or has an unsupported option.
    """
    scheme, _, address = url.partition("://")
    if scheme != SCHEME:
        known = "sqlite+aiosqlite:///PATH and postgresql://USER:PASSWORD@HOST/DATABASE can"
        raise StorageError(f"The storage URL cannot be used; {known}.")
    authority, path, query = _parts(address)
    login, _, hosts = authority.rpartition("@")
    user, _, password = login.partition(":")
    options = _options(query)
    database = unquote(path) or options.pop("dbname", "")
    user = unquote(user) or options.pop("user", "")
    secret = unquote(password) or options.pop("password", "")
    ports = options.pop("port", "")
    found = _hosts(unquote(hosts) if hosts.startswith("%2") else hosts or options.pop("host", ""), ports)
    options.pop("host", None)
    pooled = _pooled(options)
    connecting = _seconds(options.pop("connect_timeout", ""))
    trusted = _tls(options)
    if len(found) > 1 or "target_session_attrs" not in options:
        options.setdefault("target_session_attrs", "read-write")
    dsn = f"postgresql://{quote(user, safe='')}{'@' if user else ''}/{quote(database, safe='')}?{urlencode(options)}"
    ask = url.password if isinstance(url, DeferredUrl) else None
    return PostgresUrl(dsn, found, user, database, secret or None, ask, pooled, connecting, trusted)


def _parts(address: str) -> tuple[str, str, str]:
    """Return the login with the hosts, the database, and the options."""
    before, _, query = address.partition("?")
    authority, _, path = before.partition("/")
    if authority.count("@") > 1 or "@" in path or "/" in path or "#" in authority:
        raise StorageError(f"The storage URL cannot be taken apart: {_ENCODE}.")
    return authority, path, query


def _options(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        # The URL may name several hosts one by one.
        found[name] = f"{found[name]},{value}" if name in found and name in ("host", "port") else value
    known = {*_OF_THE_DRIVER, *_TLS, *_FILES, *_OF_THE_SERVER, *_IDLE, *_CACHES}
    known |= {"ssl", "host", "port", "dbname", "user", "password", "connect_timeout", "pgbouncer"}
    if unknown := sorted(found.keys() - known):
        if "@" in query:
            # The end of a password with a `?` in it, which no message may show.
            raise StorageError(f"The storage URL cannot be taken apart: {_ENCODE}.")
        said = f"The storage URL has options that are not known ({', '.join(unknown)}); `sslmode=require` is one."
        raise StorageError(said)
    for name in _IDLE.intersection(found):
        if found.pop(name) == "require" and name in ("channel_binding", "gssencmode"):
            raise StorageError(f"The storage URL demands {name}=require, which the driver cannot do: take it out.")
    return found


def _hosts(text: str, ports: str) -> tuple[tuple[str, int], ...]:
    found = []
    given = ports.split(",") if ports else []
    for index, one in enumerate(text.split(",") if text else ["localhost"]):
        host, port = _host(one)
        default = given[index] if len(given) > 1 and index < len(given) else (given[0] if given else "")
        port = port or default or str(PORT)
        if not port.isdecimal() or not 0 < int(port) < 65536 or not host or " " in host:
            raise StorageError(f"The storage URL names no host with a port: {_ENCODE}.")
        found.append((host, int(port)))
    return tuple(found)


def _host(text: str) -> tuple[str, str]:
    """Return a host, an address or the folder of a socket, and its port, which may be empty."""
    if text.startswith("/"):
        return text, ""
    if text.startswith("["):
        address, _, port = text[1:].partition("]")
        return address, port.removeprefix(":")
    host, _, port = text.partition(":")
    return unquote(host), port


def _pooled(options: dict[str, str]) -> bool:
    sizes = [options.pop(name) for name in _CACHES if name in options]
    return "0" in sizes or options.pop("pgbouncer", "") == "true"


def _seconds(text: str) -> float:
    try:
        return float(text) if text and float(text) > 0 else CONNECTING
    except ValueError:
        raise StorageError("The storage URL has a `connect_timeout` that is no number of seconds.") from None


def _tls(options: dict[str, str]) -> bool:
    """Normalize the TLS options; return whether the certificate authorities of this machine vouch for the server."""
    ssl = options.pop("ssl", "")
    if ssl:
        options["sslmode"] = "require" if ssl in ("true", "1", "on") else ssl
    mode = options.get("sslmode", "")
    if mode and mode not in _MODES:
        raise StorageError(f"The storage URL has an unknown `sslmode`; there are {', '.join(_MODES)}.")
    system = options.get("sslrootcert") == "system"
    if system:
        if mode != "verify-full":
            raise StorageError("In the storage URL, `sslrootcert=system` needs `sslmode=verify-full`.")
        del options["sslrootcert"], options["sslmode"]
    for name in _FILES:
        if name in options:
            options[name] = str(Path(options[name]).expanduser())
            if not Path(options[name]).is_file():
                raise StorageError(f"The storage URL names a file with `{name}` that cannot be read: {options[name]}.")
    return system
