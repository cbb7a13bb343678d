"""The pages `/`, `/healthz` and `/readyz`: which frontends there are, that the process runs, how the upstreams are."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aggregator.frontends.web.host_guard import Receive, Scope, Send, header, respond, source_in

ALIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
_METHODS: Final = ("GET", "HEAD")

# Returns whether the aggregator is ready, and the details that say so.
StatusReport = Callable[[], tuple[bool, Mapping[str, Any]]]
# Returns the details of all replicas.
GroupReport = Callable[[], Awaitable[Mapping[str, Any]]]


class StatusPages:
    """An ASGI application of three pages; every other path is answered with 404.

    Details are shown to this machine only.
    """

    def __init__(
        self,
        report: StatusReport,
        frontends: Mapping[str, str],
        people: str | None = None,
        of_all: GroupReport | None = None,
    ) -> None:
        """Make them; `people` is the path of the pages for people, which browsers that ask for `/` are sent to. The
        details come from `of_all` if this is one of several replicas.
        """
        self._of_all = of_all
        self._report = report
        self._frontends = frontends
        self._people = people

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/") or "/"
        if path not in ("/", ALIVE_PATH, READY_PATH):
            await _respond_text(send, 404, b"Not Found")
        elif scope["method"] not in _METHODS:
            await _respond_text(send, 405, b"Method Not Allowed", (b"allow", ", ".join(_METHODS).encode()))
        elif path == READY_PATH:
            ready, details = self._report()
            if not source_in(scope).local:
                details = {"ready": ready}
            elif self._of_all is not None:
                details = await self._of_all()
            await respond(send, 200 if ready else 503, details)
        elif path == ALIVE_PATH:
            await respond(send, 200, {"status": "ok"})
        elif self._people is not None and "text/html" in (header(scope, b"accept") or ""):
            # Relative, so that it holds behind a prefix that a proxy takes away.
            here = "." if scope["path"] else scope["root_path"].rpartition("/")[2]
            await respond(send, 307, headers={b"location": f"{here}{self._people}/".encode(), b"vary": b"accept"})
        else:
            await respond(send, 200, {"name": "aggregator", **self._frontends})


async def _respond_text(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", b"%d" % len(body))
    lines = [length, (b"content-type", b"text/plain; charset=utf-8"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
