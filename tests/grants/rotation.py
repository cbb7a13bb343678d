"""Kill -9 in the middle of a rotation: `python -m tests.grants.rotation --moments 50`.

A process renews a grant at an issuer that rotates refresh tokens, and is killed at a random moment after it has begun.
The next process has to use the same grant, with no person. The issuer accepts the refresh token before until the next
one was used.
"""

import argparse
import asyncio
import logging
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from aggregator.domain.missing import LoginRequired
from tests.grants.harness import Accounts, Events, accounts, owner, process, server_config
from tests.polling import until

# Seconds within which a renewal is over, and a moment is taken from; and that a claim lasts.
SPAN: Final = 0.08
# Seconds between the rotation at the issuer and its answer.
ON_THE_WAY: Final = 0.02
LEASE: Final = 1.0


async def main() -> int:
    """Do so, and print how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=17)
    given = parser.parse_args()
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite+aiosqlite:///{Path(folder) / 'aggregator.db'}"
        lost, asked, renewed = await kill_at_moments(url, given.moments, random.Random(given.seed))  # noqa: S311
    said = f"{asked} after the issuer was asked, {renewed} after its answer was stored"
    print(f"{given.moments} kills: {said}; {lost} grants lost")
    return 1 if lost else 0


async def kill_at_moments(url: str, moments: int, rng: random.Random) -> tuple[int, int, int]:
    """Return how many grants were lost, how many kills came after the issuer was asked, and after the storing."""
    lost = asked = renewed = 0
    async with accounts(url, lease=LEASE) as here:
        here.idp.lifetime = 0.0

        async def slowly(request: Request) -> Response:
            answer = await here.idp._token(request)
            await asyncio.sleep(ON_THE_WAY)
            return answer

        here.idp.instead["token"] = slowly
        for number in range(moments):
            name = f"agent-{number}"
            assert (await here.connect(name)).connected
            before = here.idp.counts["token"]
            version = await _version(here, name)
            # Every second one is killed after the issuer was asked, however slow the machine is.
            await _killed(here, name, rng.uniform(0, SPAN), asks=before if number % 2 == 0 else None)
            asked += here.idp.counts["token"] > before
            renewed += await _version(here, name) != version
            lost += not await _works(here, name)
    return lost, asked, renewed


async def _version(here: Accounts, name: str) -> int:
    vault = await here.grants._store.vault()
    found = [one for one in await vault.grants.all() if one.owner == owner(name).key]
    return found[0].version


async def _killed(here: Accounts, name: str, after: float, asks: int | None) -> None:
    """Have a process begin to renew, and kill it some time after; asks: once the issuer got more requests than that."""
    renewing = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.grants.rotation", "renew", here.url, str(here.config.url), name),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert renewing.stdin is not None
    assert renewing.stdout is not None
    assert await renewing.stdout.readline() == b"ready\n"
    renewing.stdin.write(b"\n")
    if asks is not None:
        await until(lambda: here.idp.counts["token"] > asks, "the issuer is asked")
    await asyncio.sleep(after)
    if renewing.returncode is None:
        renewing.send_signal(signal.SIGKILL)
    await renewing.wait()


async def _works(here: Accounts, name: str) -> bool:
    """Return True if the next process gets a token that the issuer gave for the same person."""
    here.idp.lifetime = 3600.0
    async with process(here.url, here.config, Events(), lease=LEASE) as later:
        credentials = later.credentials(here.config, owner(name))
        try:
            await credentials.ready()
        except LoginRequired:
            return False
        finally:
            here.idp.lifetime = 0.0
        header = credentials.header or ""
    facts = here.idp.access.get(header.removeprefix("Bearer "))
    return facts is not None and facts["sub"] == name


async def renew(url: str, server: str, name: str) -> None:
    """Renew a grant when a line comes in; this is the process that is killed."""
    config = server_config(server)
    async with process(url, config, Events(), lease=LEASE) as grants:
        vault = await grants._store.vault()
        await vault.grants.all()
        await grants._store.sealer()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await grants.credentials(config, owner(name)).ready()
        await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["renew"]:
        asyncio.run(renew(*sys.argv[2:5]))
    else:
        sys.exit(asyncio.run(main()))
