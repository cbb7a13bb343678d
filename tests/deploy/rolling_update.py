"""Two gateways behind nginx, of which one after the other is restarted again and again while hosts call.

`python -m tests.deploy.rolling_update --restarts 20` prints how many calls were answered, and each that was not.
"""

import argparse
import asyncio
import json
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from aggregator.identity.keys import new_key, policy_line
from tests.end_to_end.forked_program import Program
from tests.end_to_end.programs import start
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN
from tests.operating.program_harness import server
from tests.polling import BOUND, until

HOSTS: Final = 8
# nginx asks the second process when the first takes no connection. It sends nothing twice that may have arrived. One
# that took none is asked again after `fail_timeout`, or a second later, since nginx counts whole seconds.
NGINX: Final = """
daemon off;
worker_processes 1;
error_log {folder}/error.log warn;
pid {folder}/nginx.pid;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream gateways {{
        server 127.0.0.1:{ports[0]} max_fails=1 fail_timeout=1s;
        server 127.0.0.1:{ports[1]} max_fails=1 fail_timeout=1s;
        keepalive 16;
    }}
    server {{
        listen 127.0.0.1:{port};
        add_header answered-by $upstream_addr always;
        location / {{
            proxy_pass http://gateways;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_buffering off;
            proxy_next_upstream error;
        }}
    }}
}}
"""
_SAID: Final = re.compile(r"\*\d+ (.*? while [a-z ]+)")


@dataclass
class RollingUpdate:
    """The outcome: calls that were answered, failures by what was seen, and restarts.

    `said` is what nginx wrote, which it also does where it then asked the other gateway.
    `answering` are the addresses that have answered a call since it was cleared; `arrived` is notified of each answer.
    """

    answered: int = 0
    restarts: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    answering: set[str] = field(default_factory=set)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def answers_from(self, port: int) -> None:
        """Wait until a process has answered a call that begins now, or later."""
        self.answering.clear()
        async with asyncio.timeout(BOUND):
            while f"127.0.0.1:{port}" not in self.answering:
                self.arrived.clear()
                await self.arrived.wait()

    def note(self, status: int, text: str, by: str) -> None:
        """Note an answer; `by` are the addresses that were asked, the one that answered last."""
        if status == 200 and '"pid' in text and '"isError":true' not in text:
            self.answered += 1
            self.answering.add(by.rpartition(" ")[2])
            self.arrived.set()
        else:
            self.failures[f"{status}: {text[:200]}"] += 1


class Gateways:
    """Two gateways, and nginx before them."""

    def __init__(self, folder: Path, delay: str, workers: int) -> None:
        self._folder = folder
        self._options = ["--log-level", "warning", *(["--workers", str(workers)] if workers > 1 else [])]
        self._programs: list[Program] = []
        *self._ports, self.port = free_ports(3)
        key = new_key("host", now=time.time())
        self.key = key.text
        (folder / "policies").mkdir()
        policy = f"agents:\n  host:\n    keys: ['{policy_line(key.record)}']\n    allow: ['*']\n"
        (folder / "policies" / "one.yaml").write_text(policy)
        for number, port in enumerate(self._ports):
            config = {
                "mcpServers": {"box": server()},
                "http": {"port": port},
                "storage": f"sqlite+aiosqlite:///{folder / f'{number}.db'}",
                "shutdown_delay": delay,
            }
            (folder / f"{number}.json").write_text(json.dumps(config))
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, ports=self._ports, port=self.port))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all three inside."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._end)
            for number in (0, 1):
                self._programs.append(await self._started(number))
            nginx = await asyncio.create_subprocess_exec(
                find_nginx() or "nginx", "-c", str(self._folder / "nginx.conf")
            )

            async def end_nginx() -> None:
                nginx.terminate()
                await nginx.wait()

            stack.push_async_callback(end_nginx)
            await until(lambda: answers(self.port), "nginx answers")
            yield

    async def restart(self, number: int, outcome: RollingUpdate) -> None:
        """End one gateway as a rolling update does, and start it again; wait until nginx sends it calls again."""
        program = self._programs[number]
        program.send_signal(signal.SIGTERM)
        await program.wait()
        self._programs[number] = await self._started(number)
        await outcome.answers_from(self._ports[number])

    async def _started(self, number: int) -> Program:
        log = self._folder / f"{number}.log"
        program = await start("serve", "--config", str(self._folder / f"{number}.json"), *self._options)
        self._reading = asyncio.create_task(_kept(program, log))
        port = self._ports[number]

        async def ready() -> bool:
            async with aiohttp.ClientSession() as session:
                try:
                    async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                        return answer.status == 200
                except aiohttp.ClientError:
                    return False

        try:
            await until(ready, "the gateway is ready")
        except BaseException:
            program.kill()
            raise
        return program

    async def _end(self) -> None:
        for program in self._programs:
            program.send_signal(signal.SIGTERM)
            program.send_signal(signal.SIGTERM)
        for program in self._programs:
            await program.wait()


async def roll(folder: Path, restarts: int, delay: str = "1s", workers: int = 1) -> RollingUpdate:
    """Return the outcome of a rolling update that goes round and round."""
    gateways, outcome, over = Gateways(folder, delay, workers), RollingUpdate(), asyncio.Event()
    async with gateways.running(), asyncio.TaskGroup() as tasks:
        for number in range(HOSTS):
            tasks.create_task(_host(gateways, number, outcome, over))
        for number in range(restarts):
            await gateways.restart(number % 2, outcome)
            outcome.restarts += 1
        over.set()
    outcome.said.update(_SAID.findall((folder / "error.log").read_text(encoding="utf-8")))
    return outcome


async def _host(gateways: Gateways, number: int, outcome: RollingUpdate, over: asyncio.Event) -> None:
    """Call until it is over. Every second host takes a connection of its own for each call."""
    connector = aiohttp.TCPConnector(force_close=number % 2 == 1)
    headers = {
        **ACCEPT,
        "authorization": f"Bearer {gateways.key}",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": "box.who",
    }
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        made = 0
        while not over.is_set():
            made += 1
            params = {"name": "box.who", "arguments": {}, "_meta": ENVELOPE}
            message = {"jsonrpc": "2.0", "id": made, "method": "tools/call", "params": params}
            try:
                async with session.post(f"http://127.0.0.1:{gateways.port}/mcp", json=message) as answer:
                    text = await answer.text()
            except aiohttp.ClientError as error:
                outcome.failures[f"{type(error).__name__}: {error}"] += 1
                continue
            outcome.note(answer.status, text, answer.headers.get("answered-by", ""))


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that no program listens at now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return found


def answers(port: int) -> bool:
    """Return whether a program listens at a port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def find_nginx() -> str | None:
    """Return the path of nginx, which is often in a folder that only administrators have on PATH."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


async def _kept(program: Program, log: Path) -> None:
    with log.open("ab") as kept:
        while line := await program.stderr.readline():
            kept.write(line)


def main() -> int:
    """Run it, and return 1 if a call was not answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--delay", default="1s")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(roll(Path(folder), options.restarts, options.delay, options.workers))
    print(f"{outcome.restarts} restarts, {outcome.answered} calls answered, {outcome.failures.total()} not")
    for seen, count in outcome.failures.most_common():
        print(f"  {count} x {seen}")
    for said, count in outcome.said.most_common():
        print(f"  {count} x nginx: {said}")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
