"""Redaction for one server: removes its secrets from texts about it and from its messages."""

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import LaunchConfig
from aggregator.config.servers.late import without_late
from aggregator.config.servers.secrets import secrets_in
from aggregator.domain.bounds.small import is_small
from aggregator.domain.errors import URL_REQUIRED, UpstreamError, UpstreamRpcError
from aggregator.domain.reasons import SAID_AT_MOST
from aggregator.domain.text.invisible import EXACT, SENT, changed_texts, cleaned
from aggregator.domain.text.unstorable import storable_value
from aggregator.redaction.beginning import beginning
from aggregator.redaction.redactor import Redactor

log = logging.getLogger(__name__)

# Redaction looks for the secrets of its own config even if they are short.
_SHORTEST: Final = 4
# Values that may be secret under any name: all but words, paths and addresses, and random arguments.
_HARD_TO_GUESS: Final = re.compile(r"(?![.~]{0,2}/|[A-Za-z][\w+.-]*://)(?=.*[^A-Za-z._ -]).{8,}", re.DOTALL)
_RANDOM: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=-]{16,}", re.ASCII)


# The most values, and characters in one text, to search on the event loop.
_RELAYED: Final = (2_000, 64 * 1024)
# A warning to log once.
_UNSTORABLE: Final = "unstorable"
_LEFT_OUT: Final = "[The aggregator left this out: it is too large to be looked through for secrets.]"


class ServerRedaction:
    """The redactor of one server: removes secrets from texts about it and from messages of it.

    Rule: redaction removes only known secrets from answers of a server, and none from a result that is no error. It
    removes invisible characters from the server's description of itself and from its questions, unless `keeps`.
    """

    def __init__(self, own: Redactor, shared: Redactor, *, server: str = "", keeps: bool = False) -> None:
        self._own = own
        self._shared = shared
        self._server = server
        self._keeps = keeps
        self._warned: set[str] = set()

    def __call__(self, text: str) -> str:
        """Return a text of ours about the server without secrets."""
        return self._shared(self._own(text))

    def learn(self, values: Iterable[str], config: ServerConfig) -> None:
        """Hide the current values of the server's references, and the secrets in the config completed by them.

        Takes a while: call it in a thread.
        """
        values = [value for value in values if value]
        self._own.learn(config.id, {*values, *secrets_of(config)})
        self._shared.learn(config.id, {*values, *filter(None, _telling_secrets(config))})

    def learn_header(self, source: str, header: str) -> None:
        """Hide the credential in the value of an `Authorization` header of an account (`credentials_source`).

        Takes some milliseconds for a new one.
        """
        named = {"access_token": header.partition(" ")[2] or header}
        if not self._shared.knows_credentials(source, named):
            self._shared.learn_credentials(source, named)

    def for_host(self, value: Any) -> Any:
        """Return a JSON value of the server for a host, without known secrets; a note replaces a large value."""
        return self._shared.known(value) if is_small(value, *_RELAYED) else _note(value)

    async def whole_for_host(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a result of the server for a host, of any size, without known secrets."""
        if is_small(value, *_RELAYED):
            return self._shared.known(value)  # type: ignore[no-any-return]
        result: dict[str, Any] = await asyncio.to_thread(self._shared.known, value)
        return result

    def definitions(self, items: list[Any], *, named: bool = True) -> list[Any]:
        """Return a list of definitions without known secrets in their texts.

        URIs, values for comparison and, for kinds called by name (`named`), names stay unchanged: the server would not
        recognise a changed one. Takes a while for a long list: call it in a thread.
        """
        known = self._shared.known
        return (
            items if known(items) is items else list(changed_texts(items, known, EXACT if named else EXACT - {"name"}))
        )

    def of_itself(self, said: Any) -> Any:
        """Return a description that a server gives of itself, without known secrets and invisible characters, and
        without those that cannot be stored.
        """
        seen = changed_texts(self.visible(said, "what it says of itself"), self._shared.known, EXACT - {"name"})
        kept = storable_value(seen)
        if kept is not seen and _UNSTORABLE not in self._warned:
            self._warned.add(_UNSTORABLE)
            log.warning(
                "%s: characters that can be neither stored nor sent are U+FFFD now in what it says of itself",
                self._server,
            )
        return kept

    def visible(self, value: Any, what: str) -> Any:
        """Return a JSON value of the server without invisible characters; a removal is logged once for each `what`."""
        if self._keeps:
            return value
        changed = changed_texts(value, cleaned, SENT)
        if changed is not value and what not in self._warned:
            self._warned.add(what)
            log.warning("%s: characters that cannot be seen were taken out of %s", self._server, what)
        return changed

    def redact_error(self, error: UpstreamError | UpstreamRpcError) -> None:
        """Remove secrets from an error for a host: the error of the server, or one of ours that quotes it."""
        if isinstance(error, UpstreamError):
            error.message, error.said = self(error.message), beginning(error.said, self, SAID_AT_MOST)
        else:
            error.message = self.for_host(error.message)
            # The address of a page to visit may contain configured values.
            asks = error.code == URL_REQUIRED
            error.data = self.visible(error.data, "its questions") if asks else self.for_host(error.data)
            error.more = self.for_host(error.more) if error.more else error.more
        error.args = (error.message,)

    @contextmanager
    def redacting_errors(self) -> Iterator[None]:
        """Remove secrets from upstream errors raised inside."""
        try:
            yield
        except (UpstreamError, UpstreamRpcError) as error:
            self.redact_error(error)
            raise


def _note(value: Any) -> Any:
    """Return a note in place of a large value; of an object, its small members stay."""
    if not isinstance(value, dict):
        return _LEFT_OUT
    few = islice(value.items(), _RELAYED[0])
    return {name: item if isinstance(item, int | float | None) else _LEFT_OUT for name, item in few}


def server_redaction(config: ServerConfig, redact: Redactor | None = None) -> ServerRedaction:
    """Return the redactor of one server: for the secrets of its config, and for those that `redact` knows."""
    own = Redactor(secrets_of(without_late(config, config.references)), _SHORTEST)
    return ServerRedaction(own, redact or own, server=config.id, keeps=config.invisible_characters == "keep")


def secrets_of(config: ServerConfig) -> set[str]:
    """Return the possible secrets in the config of a server."""
    secrets = set(_telling_secrets(config))
    for program in _programs(config):
        secrets.update(value for value in program.env.values() if _HARD_TO_GUESS.fullmatch(value))
        secrets.update(arg for arg in program.args if _RANDOM.fullmatch(arg))
    return secrets


def _telling_secrets(config: ServerConfig) -> Iterator[str]:
    """Yield the values that are secret by their place or name."""
    auth = config.auth.model_dump() if config.auth is not None else None
    yield from secrets_in({"headers": config.headers, "url": config.url, "proxy": config.proxy, "auth": auth})
    for program in _programs(config):
        yield from secrets_in({"env": program.env, "args": program.args})


def _programs(config: ServerConfig) -> list[ServerConfig | LaunchConfig]:
    return [config] if config.launch is None else [config, config.launch]
