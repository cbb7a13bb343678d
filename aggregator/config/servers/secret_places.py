"""The places in an entry where secrets stand in the clear, so that they can be kept elsewhere.

Law: what is found is meant for references in its place; nothing but a name of it is ever shown.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, unquote_plus, urlsplit

from aggregator.config.servers.secrets import AUTH_SECRETS, secrets_in, secrets_in_address
from aggregator.redaction.field_names import SecretNames, is_opaque, is_secret
from aggregator.redaction.key_formats import key_spans

_NAMES: Final = SecretNames()
_SHORTEST: Final = 4
_BEARER: Final = re.compile(r"\bbearer\s+([\w.~+/=-]{8,})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """A secret in the clear: the path of the text it stands in, the secret, and a name for it.

    The name is made of letters, digits and `_`, from that of the variable, header, argument or query field.
    """

    path: tuple[str | int, ...]
    name: str
    secret: str = field(repr=False)

    @property
    def label(self) -> str:
        """The place in words, without the secret."""
        part, *rest = self.path
        if part == "args":
            return f"argument {int(rest[0]) + 1}"
        if part in ("headers", "auth"):
            return f"header {rest[0]}" if part == "headers" else f"{rest[0]} of auth"
        return f"variable {rest[0]}" if part == "env" else "address"


def secret_places(fields: Mapping[str, Any]) -> tuple[SecretPlace, ...]:
    """Return the secrets in the clear of an entry in our form: variables, headers, arguments and the address."""
    found = [
        *_in_pairs(fields, "env"),
        *_in_pairs(fields, "headers"),
        *_in_auth(fields.get("auth")),
        *_in_arguments(fields.get("args")),
        *_in_text(("url",), "URL", fields.get("url")),
    ]
    return tuple(found)


def with_references(fields: Mapping[str, Any], references: Mapping[SecretPlace, str]) -> dict[str, Any]:
    """Return an entry in which references stand in the places of secrets."""
    by_path: dict[tuple[str | int, ...], dict[str, str]] = {}
    for place, reference in references.items():
        by_path.setdefault(place.path, {})[place.secret] = reference
    made = dict(fields)
    for (part, *rest), written in by_path.items():
        whole = made[str(part)]
        if not rest:
            made[str(part)] = _replaced(whole, written)
        elif isinstance(whole, Mapping):
            made[str(part)] = {**whole, rest[0]: _replaced(whole[rest[0]], written)}
        else:
            made[str(part)] = [_replaced(text, written) if at == rest[0] else text for at, text in enumerate(whole)]
    return made


def _replaced(text: str, references: Mapping[str, str]) -> str:
    """Return a text with its secrets replaced at once: a reference may hold what looks like another of them."""
    longest_first = sorted(references, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: references[found[0]], text)


def _in_pairs(fields: Mapping[str, Any], part: str) -> Iterator[SecretPlace]:
    pairs = fields.get(part)
    for name, value in pairs.items() if isinstance(pairs, Mapping) else ():
        if not isinstance(value, str):
            continue
        if "${" in value:
            yield from _in_text((part, name), _upper(name), value)
        elif part == "headers" and name.lower().endswith("authorization") and " " in value.strip():
            yield SecretPlace((part, name), "TOKEN", value.strip().split(maxsplit=1)[1])
        elif (is_secret(_NAMES.verdict(name), value) and not _is_path(value)) or _is_key(value):
            yield SecretPlace((part, name), _upper(name), value)
        else:
            yield from _in_text((part, name), _upper(name), value)


def _in_auth(auth: object) -> Iterator[SecretPlace]:
    for name, value in auth.items() if isinstance(auth, Mapping) else ():
        if name in AUTH_SECRETS and isinstance(value, str) and "${" not in value:
            yield SecretPlace(("auth", name), _upper(name), value)


def _in_arguments(args: object) -> Iterator[SecretPlace]:
    texts = [str(arg) for arg in args] if isinstance(args, list | tuple) else []
    secrets = [secret for secret in secrets_in({"args": texts}) if "${" not in secret and len(secret) >= _SHORTEST]
    before = ""
    for at, text in enumerate(texts):
        if "://" in text:
            yield from _in_text(("args", at), "URL", text)
        else:
            name, sign, value = text.partition("=") if "=" in text else text.partition(":")
            # `KEY=secret` and `Header: Bearer secret`: the shortest is the secret itself.
            within = [secret for secret in secrets if text == secret or (sign and value.strip().endswith(secret))]
            inner = re.match(r"(\w+)=(.+)", value, re.DOTALL)
            if inner is not None and inner[2] in within:
                # `--env=KEY=secret`
                name = inner[1]
            if within:
                yield SecretPlace(
                    ("args", at), _upper(name if sign and text not in within else before), min(within, key=len)
                )
            elif _is_key(text):
                yield SecretPlace(("args", at), _upper(before), text)
        before = text


def _in_text(path: tuple[str | int, ...], name: str, text: object) -> Iterator[SecretPlace]:
    """Yield the secrets of an address, or of a header in a text, as they are written there."""
    if not isinstance(text, str):
        return
    for found in _BEARER.finditer(text):
        yield SecretPlace(path, f"{name}_TOKEN", found[1])
    secrets = {secret for secret in secrets_in_address(text) if "${" not in secret}
    if not secrets:
        return
    parts = urlsplit(text)
    for field_name, written in re.findall(r"(?:^|&)([^=&]*)=([^&]*)", parts.query):
        if unquote_plus(written) in secrets and written:
            yield SecretPlace(path, _upper(unquote_plus(field_name)), written)
            secrets.discard(unquote_plus(written))
    login = parts.netloc.rpartition("@")[0]
    user, _, password = login.partition(":")
    for written in (password, user) if login else ():
        if written and unquote(written) in secrets:
            yield SecretPlace(path, f"{name}_PASSWORD", written)
            secrets -= {written, unquote(written)}
    for written in parts.path.split("/"):
        if written in secrets:
            yield SecretPlace(path, f"{name}_KEY", written)


def _is_key(text: str) -> bool:
    """Return whether a text is, or holds, a key in a known form."""
    return is_opaque(text) and next(key_spans(text), None) is not None


def _is_path(text: str) -> bool:
    """Return whether a text is the path of a file, such as GOOGLE_APPLICATION_CREDENTIALS has."""
    return re.fullmatch(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w\s./\\-]*\.\w{1,6}", text) is not None


def _upper(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")[:60] or "SECRET"
