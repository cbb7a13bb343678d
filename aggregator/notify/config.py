"""The receivers of notices: which addresses get which kinds of events that need a person."""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Final, Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import Field, field_validator, model_validator

from aggregator.config.fields import ConfigModel, Seconds, TextMap, Texts
from aggregator.redaction.field_names import is_opaque

NoticeType = Literal[
    "approval.waiting", "server.down", "server.back", "tools.changed", "definition.held", "limit.reached"
]
NoticeFormat = Literal["json", "slack", "teams"]

EVERY_TYPE: Final[tuple[NoticeType, ...]] = (
    "approval.waiting",
    "server.down",
    "server.back",
    "tools.changed",
    "definition.held",
    "limit.reached",
)
SECRET_PREFIX: Final = "whsec_"  # noqa: S105
# Bytes of a secret: Standard Webhooks, Signature scheme.
_LEAST_SECRET: Final = 24
_LONGEST_SECRET: Final = 64
# Shorter parts of an address are words; the keys of chat services in a path have more characters.
_WORD: Final = 12


class ReceiverConfig(ConfigModel):
    """One receiver of notices: a webhook (`url`) or a program (`command`)."""

    name: str = Field(
        min_length=1,
        max_length=64,
        description="The name of the receiver in the log, in `/readyz` and for `aggregator notify test`.",
        examples=["on-call"],
    )
    url: str | None = Field(
        default=None,
        repr=False,
        description="The address to which notices are sent with POST. Only its host is ever shown or logged.",
        examples=["https://hooks.example.com/aggregator"],
    )
    command: str | None = Field(
        default=None,
        min_length=1,
        description="In place of `url`: a program that runs for each notice, without a shell, and gets it as JSON on "
        "its stdin. It is looked up on `PATH`.",
        examples=["/usr/local/bin/tell-me"],
    )
    args: Texts = Field(default=(), repr=False, description="`command`: its arguments.", examples=[["--urgent"]])
    env: TextMap = Field(
        default={},
        repr=False,
        description="`command`: environment variables it gets besides the usual few.",
        examples=[{"DISPLAY": ":0"}],
    )
    format: NoticeFormat = Field(
        default="json",
        description="`url`: the form of the message: `json` as in docs/observability.md, `slack` for an incoming "
        "webhook of Slack, `teams` for a Workflows webhook of Microsoft Teams.",
        examples=["slack"],
    )
    secret: str | None = Field(
        default=None,
        repr=False,
        description="`url`: messages are signed with this secret, as in Standard Webhooks: `whsec_` and 24 to 64 "
        "bytes in base64, such as `openssl rand -base64 32` prints.",
        examples=["${HOOK_SECRET}"],
    )
    headers: TextMap = Field(
        default={},
        repr=False,
        description="`url`: sent with every message. Their values are never shown or logged.",
        examples=[{"Authorization": "Bearer ${HOOK_TOKEN}"}],
    )
    proxy: str | None = Field(
        default=None,
        repr=False,
        description="`url`: the HTTP proxy on the way there.",
        examples=["http://proxy.example.com:3128"],
    )
    events: tuple[NoticeType, ...] = Field(
        default=EVERY_TYPE,
        description="The types to send: `approval.waiting` (a call waits for an approval), `server.down`, "
        "`server.back`, `tools.changed` (a server has other tools), `limit.reached` (a limit of the policies).",
        examples=[["approval.waiting", "server.down"]],
    )
    agents: tuple[str, ...] = Field(
        default=(),
        description="Only notices about agents that match one of these shell patterns, and those about no agent. "
        "Empty: all.",
        examples=[["sales-*"]],
    )
    servers: tuple[str, ...] = Field(
        default=(),
        description="Only notices about servers that match one of these shell patterns, and those about no server. "
        "Empty: all.",
        examples=[["crm", "erp"]],
    )
    grace: Seconds = Field(
        default=30.0,
        description="A server must be down for this long before `server.down` is sent; `server.back` follows only "
        "after `server.down`.",
        examples=["2m"],
    )
    timeout: Seconds = Field(
        default=10.0, description="How long one message, or one run of the program, may take.", examples=["3s"]
    )

    @field_validator("url", "proxy")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        if address is not None and not _is_address(address):
            raise ValueError("expected an address such as https://hooks.example.com/aggregator")
        return address

    @field_validator("secret")
    @classmethod
    def _key(cls, secret: str | None) -> str | None:
        if secret is not None and not _LEAST_SECRET <= len(secret_key(secret)) <= _LONGEST_SECRET:
            raise ValueError(
                f"expected `{SECRET_PREFIX}` and {_LEAST_SECRET} to {_LONGEST_SECRET} bytes in base64: "
                f"write `{SECRET_PREFIX}` before what `openssl rand -base64 32` prints"
            )
        return secret

    @field_validator("headers")
    @classmethod
    def _plain_headers(cls, headers: TextMap) -> TextMap:
        for name, value in headers.items():
            if not re.fullmatch(r"[A-Za-z0-9-]+", name) or not value.isascii() or not value.isprintable():
                raise ValueError("expected names of letters, digits and -, and values of one line in ASCII")
        return headers

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not name.isprintable():
            raise ValueError("expected a name of printable characters")
        return name

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise ValueError("expected either `url` or `command`, and not both")
        texts = (self.command or "", *self.args, *self.env, *self.env.values())
        if any("\0" in text for text in texts) or any(not name or "=" in name for name in self.env):
            raise ValueError("expected texts without NUL, and names of variables without =")
        return self

    @property
    def shown(self) -> str:
        """The way there as it may be logged: an address without what may hold a key, or the program."""
        if self.url is None:
            return f"the command {self.command!r}"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…"


def secret_key(secret: str) -> bytes:
    """Return the key that a `whsec_` secret stands for; nothing for any other text."""
    if not secret.startswith(SECRET_PREFIX):
        return b""
    try:
        return b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return b""


def secrets_of(receivers: Iterable[ReceiverConfig]) -> Iterator[str]:
    """Yield what must not be shown of the receivers: secrets, values of headers, and the keys in their addresses.

    The address of a chat service's webhook is enough to write there: keys in its path and query are secrets.
    """
    for receiver in receivers:
        if receiver.secret is not None:
            yield receiver.secret
            yield receiver.secret.removeprefix(SECRET_PREFIX)
        for value in receiver.headers.values():
            yield value
            yield value.partition(" ")[2].strip()
        for address in (receiver.url, receiver.proxy):
            if address is not None:
                yield from _keys_in(address)


def _keys_in(address: str) -> Iterator[str]:
    parts = urlsplit(address)
    found = [parts.password or "", *parts.path.split("/"), *(value for _, value in parse_qsl(parts.query))]
    for text in found:
        if text == parts.password or (len(text) >= _WORD and (is_opaque(text) or re.search("[0-9]", text))):
            yield text
            yield unquote(text)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and re.search(r"[\x00-\x20\x7f]", text) is None
