"""Checks of one entry beyond the types of its fields: its server type, addresses, header names, texts.

Law: no message shows a value of `url`, `headers`, `env`, `proxy` or `args`.
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from aggregator.config.durations import format_duration
from aggregator.config.files.wording import ConfigComplaint
from aggregator.config.server_config import ServerType

# The placeholder in `url` and `launch` for a port that is free when the program is started.
FREE_PORT = "{port}"


class _Address(NamedTuple):
    """A field that says how a server is reached: its types, the default first, and the fields that it gives effect."""

    types: tuple[ServerType, ...]
    fields: tuple[str, ...]


_REACHED_BY: dict[str, _Address] = {
    "command": _Address(("stdio",), ("command", "args", "env", "cwd")),
    "url": _Address(("auto", "http", "sse"), ("url", "headers", "proxy", "launch", "auth", "tls")),
    "target": _Address(("local",), ("target",)),
}
# The field that each type of server must have.
NEEDS: dict[str, str] = {kind: name for name, address in _REACHED_BY.items() for kind in address.types}
# Not compiled here: every start would pay for it, and few files need all of them.
_HEADER_NAME = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_NOT_IN_HEADER = r"[\x00-\x08\x0a-\x1f\x7f]"
_NOT_IN_URL = r"[\x00-\x20\x7f]"
# Seconds. A bare number above this was most likely meant in milliseconds, the unit of some hosts.
_LIKELY_MILLISECONDS = 600


def settle_type(fields: dict[str, object]) -> ConfigComplaint | None:
    """Set `type` in the fields of an entry by its other fields; return a complaint if they allow none."""
    reached_by = [name for name in _REACHED_BY if fields.get(name) is not None]
    given = fields.get("type")
    if given is None and len(reached_by) == 1:
        fields["type"] = _REACHED_BY[reached_by[0]].types[0]
        return None
    if given is None and not reached_by:
        return ConfigComplaint(
            (),
            "The entry has neither `command` nor `url`.",
            'Add "command" to run a program, or "url" to connect to a server that is running.',
        )
    if given is None:
        return ConfigComplaint(
            (),
            f"The entry has both `{reached_by[0]}` and `{reached_by[1]}`, and no `type` to choose between them.",
            "Remove one of them; a program that is to be started for `url` goes into `launch`.",
        )
    need = NEEDS.get(given) if isinstance(given, str) else None
    if need and need not in reached_by:
        return ConfigComplaint(
            (need,),
            f"A server of type `{given}` needs `{need}`.",
            f"Add `{need}`, or correct `type`.",
        )
    return None


def without_effect(fields: Mapping[str, object], server_type: str) -> Iterator[ConfigComplaint]:
    """Yield a complaint for each field that has no effect on a server of this type."""
    need = NEEDS[server_type]
    for other, address in _REACHED_BY.items():
        for name in address.fields if other != need else ():
            if fields.get(name) not in (None, [], {}, (), ""):
                fix = "Remove it."
                if need == "url" and other == "command":
                    fix = "Remove it, or put it into `launch` if the aggregator is to start the program."
                yield ConfigComplaint((name,), f"`{name}` has no effect on a server of type `{server_type}`.", fix)


def unsound(fields: Mapping[str, object]) -> Iterator[ConfigComplaint]:
    """Yield a complaint for each text that cannot be used: as an address, a header, a variable or an argument."""
    if fault := address_fault(fields.get("url")):
        yield ConfigComplaint(("url",), fault, 'Write an address such as "https://mcp.example.com/mcp".')
    if fault := address_fault(fields.get("proxy")):
        yield ConfigComplaint(("proxy",), fault, 'Write an HTTP proxy such as "http://proxy.example.com:3128".')
    headers = fields.get("headers")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if not re.fullmatch(_HEADER_NAME, name):
            yield ConfigComplaint(
                ("headers", name), "This is not the name of an HTTP header.", "Use letters, digits and -."
            )
        elif isinstance(value, str) and (re.search(_NOT_IN_HEADER, value) or not _latin(value)):
            yield ConfigComplaint(
                ("headers", name), "The value holds a line break or a character that HTTP cannot carry.", "Remove it."
            )
    yield from _unsound_auth(fields)
    yield from _unsound_tls(fields)
    yield from _unsound_process(fields, ())
    launch = fields.get("launch")
    if isinstance(launch, Mapping):
        yield from _unsound_process(launch, ("launch",))


def _unsound_auth(fields: Mapping[str, object]) -> Iterator[ConfigComplaint]:
    """Yield a complaint for each field that cannot stand beside `auth`."""
    headers, url = fields.get("headers"), fields.get("url")
    if fields.get("auth") is None:
        return
    for name in headers if isinstance(headers, Mapping) else ():
        if str(name).lower() == "authorization":
            said = "With `auth`, the aggregator sends its own `Authorization`."
            yield ConfigComplaint(("headers", name), said, "Remove this header, or `auth`.")
    if isinstance(url, str) and url.startswith("http://") and address_fault(url) is None and not _is_near(url):
        said = "With `auth`, an access token would go to this address unencrypted."
        yield ConfigComplaint(("url",), said, "Write https://, or the address of a host in your own network.")


def _unsound_tls(fields: Mapping[str, object]) -> Iterator[ConfigComplaint]:
    """Yield a complaint for `tls` where no TLS is, and for a key without its certificate."""
    tls, url = fields.get("tls"), fields.get("url")
    if not isinstance(tls, Mapping):
        return
    if isinstance(url, str) and url.startswith("http://"):
        said = "The address begins with http://, so no TLS is used."
        yield ConfigComplaint(("tls",), said, "Write https:// in `url`, or remove `tls`.")
    if tls.get("client_cert") is None and (tls.get("client_key") or tls.get("client_key_password")):
        said = "There is a key for a certificate of ours, and no certificate."
        yield ConfigComplaint(("tls",), said, 'Add "client_cert", or remove the key.')


def _is_near(url: str) -> bool:
    """Return True if the host is this machine, or by its address or name one of the same private network."""
    host = urlsplit(url.replace(FREE_PORT, "1")).hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".internal", ".local"))
    return address.is_private and not address.is_unspecified


def _unsound_process(fields: Mapping[str, object], where: tuple[str, ...]) -> Iterator[ConfigComplaint]:
    env = fields.get("env")
    for name in env if isinstance(env, Mapping) else ():
        if not name or "=" in name or "\0" in name:
            yield ConfigComplaint(
                (*where, "env", name), "This is not the name of a variable.", "Remove the entry or rename it."
            )
    for name in ("command", "args", "env", "cwd"):
        if any("\0" in text for text in _texts(fields.get(name))):
            yield ConfigComplaint((*where, name), "A NUL character cannot be handed to a program.", "Remove it.")


def likely_milliseconds(fields: Mapping[str, object]) -> Iterator[ConfigComplaint]:
    """Yield a complaint for each bare number that was probably meant in milliseconds."""
    limits = fields.get("limits")
    bounds: Mapping[str, object] = limits if isinstance(limits, Mapping) else {}
    for where, value in (
        (("timeout",), fields.get("timeout")),
        (("limits", "max_timeout"), bounds.get("max_timeout")),
        (("limits", "connect_timeout"), bounds.get("connect_timeout")),
    ):
        if isinstance(value, int | float) and not isinstance(value, bool) and _LIKELY_MILLISECONDS < value < 1e9:
            spelled = format_duration(value)
            yield ConfigComplaint(
                where,
                f"The number {value} means seconds here, which is {spelled}.",
                f'Write "{spelled}" if that is right, or "{format_duration(value / 1000)}" if milliseconds were meant.',
            )


def address_fault(address: object) -> str | None:
    """Return why a text cannot be the address of a server or a proxy; None for a usable one and for other types."""
    if not isinstance(address, str):
        return None
    if re.search(_NOT_IN_URL, address):
        return "The address holds a space or a control character."
    try:
        parts = urlsplit(address.replace(FREE_PORT, "1"))
        _ = parts.port
        # As the look-up of a name writes it: no label is empty or longer than 63 characters.
        (parts.hostname or "").encode("idna")
    except ValueError:
        return "The address has a host or a port that cannot be."
    if parts.scheme not in ("http", "https"):
        return "The address does not begin with http:// or https://."
    return None if parts.hostname else "The address has no host."


def _latin(text: str) -> bool:
    return all(ord(char) < 256 for char in text)


def _texts(value: object) -> list[str]:
    values: list[object] = [value]
    if isinstance(value, Mapping):
        values = list(value.values())
    elif isinstance(value, list | tuple):
        values = list(value)
    return [text for text in values if isinstance(text, str)]
