"""A PostgreSQL server of the tests' own: made, stopped, frozen and ended with them, at a socket and a loopback port."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote, urlencode

from tests.postgres.programs import NEEDED, SERVER, ended_with_us, server_user

# The owner of every database of a test; no administrator.
USER: Final = "aggregator"
PATIENCE: Final = 60.0
_ADMIN: Final = "admin"
# Linux ends a child with the thread that started it, so that this one stays to the end of the process.
_STARTER: Final = ThreadPoolExecutor(1, "postgres")
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1,::1",
    "fsync": "off",
    "synchronous_commit": "on",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "max_wal_senders": "4",
    "wal_level": "replica",
    "log_line_prefix": "%m [%p] %u@%d ",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_ACCESS: Final = f"""\
local   all          {_ADMIN}                  trust
local   replication  {_ADMIN}                  trust
local   all          all                       scram-sha-256
host    all          all       127.0.0.1/32    scram-sha-256
host    all          all       ::1/128         scram-sha-256
"""


class Cluster:
    """One server with its data. `folder` holds the socket too; `port` is that of both."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.password = secrets.token_urlsafe(12)
        self.data = folder / "data"
        self._programs = programs
        self._user = server_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    def __repr__(self) -> str:
        return f"<Cluster at port {self.port}, {'running' if self.pid else 'stopped'}>"

    @property
    def pid(self) -> int | None:
        """Return the process id of the server, None while it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def log(self) -> str:
        """Return what the server has said."""
        return (self.folder / "log").read_text(errors="replace")

    def make(self) -> None:
        """Make the data of a new cluster, with the users of the tests; the server runs afterwards."""
        self.own(self.folder)
        self.run("initdb", "-D", self.data, "-U", _ADMIN, "-E", "UTF8", "--locale=C", "-A", "trust", "--no-sync")
        settings = {**_SETTINGS, "port": self.port, "unix_socket_directories": self.folder}
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        (self.data / "pg_hba.conf").write_text(_ACCESS)
        self.start()
        self.sql(f"CREATE ROLE {USER} LOGIN PASSWORD '{self.password}'")

    def new_database(self, template: str = "template1") -> str:
        """Make a database that `USER` owns, empty or a copy of another; return its name."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.sql(f"CREATE DATABASE {name} OWNER {USER} TEMPLATE {template}")
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, and end the connections to it."""
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def url(
        self, database: str, *, user: str = USER, password: str | None = None, host: str = "127.0.0.1", **query: str
    ) -> str:
        """Return the URL of a database as operators write it."""
        secret = quote(self.password if password is None else password, safe="")
        options = f"?{urlencode(query)}" if query else ""
        return f"postgresql://{quote(user, safe='')}:{secret}@{host}:{self.port}/{database}{options}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run statements as an administrator; return the rows, `|` between their columns."""
        where = ("-h", self.folder, "-p", str(self.port), "-U", _ADMIN, "-d", database)
        return self.run("psql", *where, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement).strip()

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run one of PostgreSQL's programs as the server's user; return what it printed."""
        assert program in NEEDED
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [self._programs / program, *arguments],
            **self._child(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{program}: {done.stderr}"
        return done.stdout

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the server and wait until it takes connections; `settings` count until it stops."""
        assert self.pid is None
        options = [part for name, value in (settings or {}).items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            words: list[str | Path] = [self._programs / SERVER, "-D", self.data, *options]
            self._process = _STARTER.submit(self._started, words, log).result()
        deadline = time.monotonic() + PATIENCE
        while not self._is_ready():
            assert self._process.poll() is None, f"the server ended: {self.log[-2000:]}"
            assert time.monotonic() < deadline, f"the server is not ready: {self.log[-2000:]}"
            time.sleep(0.02)

    def _started(self, words: Sequence[str | Path], log: IO[bytes]) -> "subprocess.Popen[bytes]":
        ends = ended_with_us()
        return subprocess.Popen(
            words, **self._child(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=ends
        )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server and wait for that: SIGINT breaks connections in order, SIGQUIT is a crash."""
        if self._process is not None:
            if self.pid is not None:
                self.thaw()
                self._process.send_signal(how)
            try:
                self._process.wait(PATIENCE)
            finally:
                self._process.kill()
                self._process = None

    def restart(self) -> None:
        """Stop the server and start it again."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Halt the server and each of its processes with SIGSTOP: connections stay open and nothing answers."""
        assert self.pid is not None
        os.kill(self.pid, signal.SIGSTOP)
        for child in _children(self.pid):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let what was frozen go on."""
        assert self.pid is not None
        for pid in (*_children(self.pid), self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    @contextmanager
    def standby(self) -> "Iterator[Cluster]":
        """Give a second server that follows this one, read-only until it is promoted."""
        with folder_of_a_cluster() as folder:
            other = Cluster(self._programs, folder)
            other.password = self.password
            other.own(folder)
            source = ("-h", self.folder, "-p", str(self.port), "-U", _ADMIN)
            self.run("pg_basebackup", *source, "-D", other.data, "-R", "-X", "stream", "-c", "fast", "--no-sync")
            try:
                other.start({"port": str(other.port), "unix_socket_directories": str(folder)})
                yield other
            finally:
                other.stop(signal.SIGQUIT)

    def promote(self) -> None:
        """Make a standby the primary; return when it takes writes."""
        assert self.sql("SELECT pg_promote(true, 60)") == "t"

    def own(self, path: Path) -> None:
        """Give a file or folder to the user whom the server runs as."""
        if self._user is not None:
            os.chown(path, *self._user)

    def _child(self) -> dict[str, Any]:
        user = {} if self._user is None else {"user": self._user[0], "group": self._user[1], "extra_groups": ()}
        # Nothing of the user's: PGHOST and the like would lead elsewhere.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {**user, "cwd": "/", "env": environ}

    def _is_ready(self) -> bool:
        try:
            return self.sql("SELECT 1") == "1"
        except AssertionError:
            return False


@contextmanager
def folder_of_a_cluster() -> Iterator[Path]:
    """Give a folder with a short path, since those of sockets are bounded; it is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp" if os.name == "posix" else None))  # noqa: S108
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_cluster(programs: Path) -> Iterator[Cluster]:
    """Give a new cluster that runs; it is ended and removed afterwards."""
    with folder_of_a_cluster() as folder:
        cluster = Cluster(programs, folder)
        try:
            cluster.make()
            yield cluster
        finally:
            cluster.stop(signal.SIGQUIT)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
