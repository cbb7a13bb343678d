"""Names of fields, headers and variables that mark their value as a secret.

Law: the last word of a name decides: `db_password` is a secret, `password_policy` is not.
"""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final


class NameVerdict(IntEnum):
    """The verdict of a name on its value."""

    NOTHING = 0
    LIKELY = 1  # a secret if it looks like one: a token may be a word, a session a number
    SURELY = 2


_SURE_ENDINGS: Final = (
    *(
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "passcode",
        "pwd",
        "secret",
        "secrets",
        "credential",
        "credentials",
    ),
    *("creds", "authorization", "cookie", "cookies", "bearer", "jwt", "otp", "psk", "seedphrase", "connectionstring"),
    *(
        "apikey",
        "apikeys",
        "secretkey",
        "privatekey",
        "accesskey",
        "signingkey",
        "encryptionkey",
        "masterkey",
        "sharedkey",
    ),
    *("accountkey", "authkey", "servicekey", "sessionkey", "subscriptionkey", "clientkey", "appkey", "deploykey"),
    *("accesstoken", "refreshtoken", "idtoken", "authtoken", "apitoken", "bearertoken", "bottoken", "sessiontoken"),
    *("securitytoken", "csrftoken", "xsrftoken", "clienttoken", "usertoken", "secrettoken", "sastoken", "webhookkey"),
    *("authcode", "authorizationcode", "codeverifier", "mcpsessionid", "phpsessid", "jsessionid"),
)
_LIKELY_ENDINGS: Final = ("token", "auth", "session", "sessionid", "sessid")
# Words rather than endings: `pass` ends `bypass`.
_LIKELY_WORDS: Final = frozenset({"pass", "pat", "sid"})
# A text without one of these contains no such name.
_HINTS: Final = (
    *("pass", "secret", "token", "key", "auth", "cookie", "cred", "pwd", "jwt", "sess", "otp", "bearer", "psk"),
    *("connection", "verifier"),
)
# Words after the deciding word that do not change the kind of value.
_QUALIFIERS: Final = frozenset(
    {"value", "text", "string", "str", "plain", "plaintext", "raw", "b64", "base64", "hex", "pem", "hash", "hashed"}
    | {"encrypted", "old", "new", "current", "confirm", "confirmation", "repeat", "again", "verify"}
)
# Cursors of lists, whose names end in `token`; and a shell's names of its folder.
_CURSORS: Final = (
    *("pagetoken", "nexttoken", "prevtoken", "previoustoken", "continuationtoken", "continuetoken", "cursortoken"),
    *("synctoken", "resumetoken", "deltatoken", "skiptoken", "listtoken"),
)
_FOLDERS: Final = frozenset({"pwd", "oldpwd"})
_NOTHING_IN_IT: Final = frozenset(
    {"true", "false", "null", "none", "nil", "undefined", "yes", "no", "string", "required", "optional"}
    | {"redacted", "unset", "empty", "n/a"}
)
# JSON Schema gives a `type` to properties of any name.
_SCHEMA_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NOT_OPAQUE: Final = re.compile(
    r"(?:[.~]{0,2}[/\\]|[A-Za-z]:\\|[A-Za-z][A-Za-z0-9+.-]*://|\$[{(]|<|\{|\[redacted|%\(|\*{3})"
)
# A letter, and a digit or a sign, and nothing empty between them.
_OPAQUE: Final = re.compile(r"(?=[^\s0-9!#$%^&*+=~@]*+[0-9!#$%^&*+=~@])(?=[^\sA-Za-z]*+[A-Za-z])\S{6,8192}")
# Nothing but a place for a secret, or the trace of one.
_TEMPLATE: Final = re.compile(
    r"(?:[A-Za-z]+ )?(?:\$\{[^{}]*\}|\{\{[^{}]*\}\}|<[^<>]*>|\[redacted.*|\*+|\S{0,20}(?:\.\.\.|…))", re.DOTALL
)
_LONGEST_NAME: Final = 80
_REMEMBERED: Final = 4096


class SecretNames:
    """The built-in names (without `built_in`, none) and those an operator adds; answers are cached."""

    def __init__(self, more: Sequence[str] = (), *, built_in: bool = True) -> None:
        self._built_in = built_in
        self._more = frozenset(folded(name) for name in more)
        # In small letters: a text that holds none of them names no secret.
        self.hints = (
            *(_HINTS if built_in else ()),
            *(max(re.findall(r"[^\W_]+", name.lower()), key=len, default=name) for name in more),
        )
        self._known: dict[str, NameVerdict] = {}

    def verdict(self, name: str) -> NameVerdict:
        """Return the verdict on a name; capitals and separators (`apiKey`, `API-KEY`) do not matter."""
        told = self._known.get(name)
        if told is None:
            told = self._work_out(name)
            if len(self._known) < _REMEMBERED and len(name) <= _LONGEST_NAME:
                self._known[name] = told
        return told

    def _work_out(self, name: str) -> NameVerdict:
        name = name[-_LONGEST_NAME:]
        whole = folded(name)
        if whole in self._more:
            return NameVerdict.SURELY
        if not self._built_in:
            return NameVerdict.NOTHING
        words = [word.lower() for word in _WORDS.findall(name)]
        while words:
            whole = "".join(words)
            if whole.endswith(_CURSORS):
                return NameVerdict.NOTHING
            if whole.endswith(_SURE_ENDINGS) and whole not in _FOLDERS:
                return NameVerdict.SURELY
            if whole in _FOLDERS or whole.endswith(_LIKELY_ENDINGS) or words[-1] in _LIKELY_WORDS:
                return NameVerdict.LIKELY
            if words[-1] not in _QUALIFIERS and not words[-1].isdigit():
                break
            words.pop()
        return NameVerdict.NOTHING


def folded(name: str) -> str:
    """Return a name without capitals and without the signs that join its words."""
    return "".join(character for character in name.lower() if character.isalnum())


def is_secret(verdict: NameVerdict, value: str) -> bool:
    """Return whether a text under a name with this verdict is to be hidden."""
    if verdict is NameVerdict.SURELY:
        return bool(value) and value.lower() not in _NOTHING_IN_IT and _TEMPLATE.fullmatch(value) is None
    return verdict is NameVerdict.LIKELY and is_opaque(value)


def is_opaque(value: str) -> bool:
    """Return whether a text looks made by a machine or hard to guess: no word, path, address or template."""
    return _OPAQUE.fullmatch(value) is not None and not _NOT_OPAQUE.match(value) and not _TEMPLATE.fullmatch(value)


def is_schema(value: Mapping[str, Any]) -> bool:
    """Tell whether an object describes a value, instead of holding one."""
    kind = value.get("type")
    return "$ref" in value or "anyOf" in value or (isinstance(kind, str) and kind in _SCHEMA_TYPES)
