"""A balancer, nginx, in front of several replicas: each request goes to the next one, and none stays where it was."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

PATIENCE: Final = 20.0
NOT_RUN: Final = "nothing was tried behind nginx: it is not on PATH, nor in /usr/sbin; Debian's package `nginx` has it"
# It does not say whom it passes on, so that hosts of this machine need no key. By default nothing is tried at another
# replica: what a test sees is what one replica answered.
_CONFIG: Final = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
worker_processes 1;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  client_max_body_size 8m;
  upstream replicas {{ {servers} keepalive 16; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://replicas;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 300s;
      proxy_next_upstream {next_upstream};
    }}
  }}
}}
"""


def find_nginx() -> str | None:
    """Return the program, None where it is not here."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


class Balancer:
    """A running nginx. `url` is its address; `use` puts other replicas behind it."""

    def __init__(self, program: str, folder: Path, next_upstream: str) -> None:
        self._program = program
        self._folder = folder
        self._next = next_upstream
        self._process: subprocess.Popen[bytes] | None = None
        with closing(socket.socket()) as found:
            found.bind(("127.0.0.1", 0))
            self._port: int = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def __repr__(self) -> str:
        return f"<Balancer at {self.url}>"

    def use(self, urls: Sequence[str]) -> None:
        """Put these replicas behind it, in turns; it is started if it does not run."""
        servers = " ".join(f"server {urlsplit(url).netloc} max_fails=0;" for url in urls)
        text = _CONFIG.format(folder=self._folder, servers=servers, port=self._port, next_upstream=self._next)
        (self._folder / "nginx.conf").write_text(text)
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)
            return
        command = [self._program, "-p", str(self._folder), "-c", str(self._folder / "nginx.conf")]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while not self._listens():
            assert self._process.poll() is None, (self._folder / "error.log").read_text()
            assert time.monotonic() < until, "nginx does not listen"
            time.sleep(0.02)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE)

    def _listens(self) -> bool:
        with closing(socket.socket()) as trial:
            return trial.connect_ex(("127.0.0.1", self._port)) == 0


@contextmanager
def balancer(folder: Path, *, next_upstream: str = "off") -> Iterator[Balancer]:
    """Give a balancer without replicas, whose files lie in the folder; it is ended afterwards."""
    program = find_nginx()
    assert program is not None, NOT_RUN
    folder.mkdir(parents=True, exist_ok=True)
    if os.name == "posix" and os.geteuid() == 0:
        # Its worker is another user.
        for part in (folder, *folder.parents[:2]):
            part.chmod(part.stat().st_mode | 0o055)
    found = Balancer(program, folder, next_upstream)
    try:
        yield found
    finally:
        found.stop()
