"""Which configured values are secret, besides those that came from variables and files."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

_TELLING = r"(?i)key|token|secret|pass|pwd|credential|auth|cookie|signature|(^|_)pat$"


def secrets_in(fields: Mapping[str, object]) -> Iterator[str]:
    """Header values, passwords and keys in addresses, and variables with telling names, of one entry."""
    for name, value in _pairs(fields.get("headers")):
        yield value
        scheme, _, rest = value.partition(" ")
        if name.lower().endswith("authorization") and scheme.isalpha():
            yield rest.strip()
    launch = fields.get("launch")
    for env in (fields.get("env"), launch.get("env") if isinstance(launch, Mapping) else None):
        yield from (value for name, value in _pairs(env) if re.search(_TELLING, name))
    for address in (fields.get("url"), fields.get("proxy")):
        if isinstance(address, str):
            yield from _secrets_in_address(address)


def _secrets_in_address(address: str) -> Iterator[str]:
    try:
        parts = urlsplit(address)
    except ValueError:
        return
    if parts.password:
        yield parts.password
        yield unquote(parts.password)
    yield from (value for name, value in parse_qsl(parts.query) if re.search(_TELLING, name))


def _pairs(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from ((str(name), str(item)) for name, item in value.items() if item is not None)
