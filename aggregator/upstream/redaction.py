"""What an upstream said, without the secrets it was given: reasons are shown to hosts and on the health page."""

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from aggregator.config.model import LaunchConfig, ServerConfig
from aggregator.config.servers.secrets import secrets_in
from aggregator.domain.bounds.offload import is_small
from aggregator.domain.errors import URL_REQUIRED, UpstreamError, UpstreamRpcError
from aggregator.domain.text.invisible import EXACT, SENT, changed_texts, cleaned
from aggregator.redaction.redactor import Redactor

log = logging.getLogger(__name__)

# A server's own few secrets are looked for even when they are short.
_SHORTEST: Final = 4
# What no name calls secret may be so all the same: values that are no word, path or address, arguments that are random.
_HARD_TO_GUESS: Final = re.compile(r"(?![.~]{0,2}/|[A-Za-z][\w+.-]*://)(?=.*[^A-Za-z._ -]).{8,}", re.DOTALL)
_RANDOM: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=-]{16,}", re.ASCII)


# What is looked through at once: so many values, and so many characters in a text.
_RELAYED: Final = (2_000, 64 * 1024)
_LEFT_OUT: Final = "[The aggregator left this out: it is too large to be looked through for secrets.]"


class ServerRedaction:
    """Takes out of what is told of one server, or passed on from it, what must not be shown.

    Rule: of what a server answers, nothing is taken but known secrets, and from a result that is good not even these.
    What cannot be seen is taken out of what it says of itself and asks, unless `keeps` says that it stays.
    """

    def __init__(self, own: Redactor, everybodys: Redactor, *, server: str = "", keeps: bool = False) -> None:
        self._own = own
        self._everybodys = everybodys
        self._server = server
        self._keeps = keeps
        self._warned: set[str] = set()

    def __call__(self, text: str) -> str:
        """What we say of it."""
        return self._everybodys(self._own(text))

    def relayed(self, value: Any) -> Any:
        """What it says itself, any JSON value, on its way to a host; a note in place of what is large."""
        return self._everybodys.known(value) if is_small(value, *_RELAYED) else _note(value)

    async def relayed_whole(self, value: dict[str, Any]) -> dict[str, Any]:
        """The same for a result: however large, it comes through whole."""
        if is_small(value, *_RELAYED):
            return self._everybodys.known(value)  # type: ignore[no-any-return]
        result: dict[str, Any] = await asyncio.to_thread(self._everybodys.known, value)
        return result

    def definitions(self, items: list[Any], *, named: bool = True) -> list[Any]:
        """Return a list of definitions without known secrets in what is there to be read.

        Names, where they are `named` by these, URIs and values that are compared stay: a changed one would mean nothing
        to the server. It takes a while for a long list: call it in a thread.
        """
        known = self._everybodys.known
        return (
            items if known(items) is items else list(changed_texts(items, known, EXACT if named else EXACT - {"name"}))
        )

    def of_itself(self, said: Any) -> Any:
        """Return what a server says of itself without known secrets and without what cannot be seen."""
        return changed_texts(self.visible(said, "what it says of itself"), self._everybodys.known, EXACT - {"name"})

    def visible(self, value: Any, what: str) -> Any:
        """Return a JSON value of the server without what cannot be seen, which is said once for each `what`."""
        if self._keeps:
            return value
        changed = changed_texts(value, cleaned, SENT)
        if changed is not value and what not in self._warned:
            self._warned.add(what)
            log.warning("%s: characters that cannot be seen were taken out of %s", self._server, what)
        return changed

    def hush(self, error: UpstreamError | UpstreamRpcError) -> None:
        """Take them out of an error that goes to a host: the server's own, or one of ours that repeats what it said."""
        if isinstance(error, UpstreamError):
            error.message = self(error.message)
        else:
            error.message = self.relayed(error.message)
            # The page that a person has to visit may be told by what was configured.
            asks = error.code == URL_REQUIRED
            error.data = self.visible(error.data, "its questions") if asks else self.relayed(error.data)
            error.more = self.relayed(error.more) if error.more else error.more
        error.args = (error.message,)

    @contextmanager
    def hushed(self) -> Iterator[None]:
        """The same for whatever is raised inside."""
        try:
            yield
        except (UpstreamError, UpstreamRpcError) as error:
            self.hush(error)
            raise


def _note(value: Any) -> Any:
    """In the form of what it stands for: of an object, what is small stays."""
    if not isinstance(value, dict):
        return _LEFT_OUT
    few = islice(value.items(), _RELAYED[0])
    return {name: item if isinstance(item, int | float | None) else _LEFT_OUT for name, item in few}


def discretion(config: ServerConfig, redact: Redactor | None = None) -> ServerRedaction:
    """That of one server: about the secrets of its config, and about all that `redact` knows."""
    secrets = set(secrets_in({"headers": config.headers, "url": config.url, "proxy": config.proxy}))
    programs: list[ServerConfig | LaunchConfig] = [config] if config.launch is None else [config, config.launch]
    for program in programs:
        secrets.update(secrets_in({"env": program.env, "args": program.args}))
        secrets.update(value for value in program.env.values() if _HARD_TO_GUESS.fullmatch(value))
        secrets.update(arg for arg in program.args if _RANDOM.fullmatch(arg))
    own = Redactor(secrets, _SHORTEST)
    return ServerRedaction(own, redact or own, server=config.id, keeps=config.invisible_characters == "keep")
