"""Secrets in text, found by the names assigned to them: `password=...`, `"key": "..."`, `Authorization: ...`."""

import re
from collections.abc import Iterator
from typing import Final

from aggregator.redaction.field_names import NameVerdict, SecretNames, folded, is_opaque, is_secret
from aggregator.redaction.spans import Span

# A word, or two of them; what gives it a value; the quote that opens it.
_NAMED: Final = re.compile(
    r"(?<![\w.-])(?P<name>(?:(?i:api|access|auth|bot|client|master|private|secret|session|service|signing) )?"
    r"\w[\w.-]{1,80}+)(?P<name_quote>\\*+[\"'])?\s{0,2}(?:=>|[:=]|%3[dD])\s{0,2}b?(?P<quote>\\*+[\"'])?",
    re.ASCII,
)
# A flag and the word behind it; a name and a value in a pair.
_FLAG: Final = re.compile(r"(?<!\S)--?(?P<name>[A-Za-z][\w.-]{2,60}+) {1,4}(?P<quote>\\*+[\"'])?(?=[^\s-])", re.ASCII)
_PAIR: Final = re.compile(r"\(b?([\"'])(?P<name>[A-Za-z][\w-]{2,60}+)\1, ?b?(?P<quote>[\"'])", re.ASCII)
_LOOKED_AT: Final = 1024
_UNQUOTED: Final = re.compile(r"[^\s\"'`,;&|<>(){}\[\]\\]+")
# A call or an index follows: it is code.
_OPENING: Final = ("(", "[", "{")
_NUMBER: Final = re.compile(r"-?[0-9]{4,}")
# Headers whose values are more than a word (RFC 9110, section 11.4; RFC 6265); the first is how their names end, also
# as WSGI and proxies spell them.
_CREDENTIALS: Final = "authorization"
_COOKIES: Final = frozenset({"cookie", "setcookie"})
_SCHEME: Final = re.compile(
    r"(?i:bearer|basic|token|apikey|api-key|key|negotiate|ntlm|ssws|bot|(?P<whole>digest|hawk|aws4-hmac-sha256))"
    r"[ \t]+(?=\S{6})"
)
# A scheme with parameters in place of one word, `Digest username="u", response="f0"`; a Basic login may end in `=`.
_SCHEME_OF_PARAMETERS: Final = re.compile(
    r"(?!(?i:basic|bearer|negotiate|ntlm)\b)[A-Za-z][\w-]{0,40}[ \t]+(?=[A-Za-z][\w*.-]{0,60}[ \t]*=[ \t]*[^\s=,])",
    re.ASCII,
)
# Between two parameters a header may be folded into the next line.
_PARAMETER: Final = re.compile(
    r"(?:[ \t]*,(?:[ \t]*\r?\n[ \t]|[ \t,])*|[ \t]+)?[A-Za-z][\w*.-]{0,60}[ \t]*=[ \t]*(?P<quote>\\*+[\"'])?", re.ASCII
)
# Also one in another alphabet, `UTF-8''J%C3%A4s` (RFC 8187).
_PARAMETER_WORD: Final = re.compile(r"(?:[\w-]{1,20}'[\w-]{0,20}'(?=[\w%]))?[^\s\"',\\]*", re.ASCII)
_REST_OF_LINE: Final = re.compile(r"[^\r\n\"'\\]+")
_COOKIE: Final = re.compile(r"[\w!#$%&*+.^`|~-]+=[^\r\n\"'\\]+", re.ASCII)
# How libraries print the headers they sent or were sent.
_HEADERS: Final = re.compile(
    r"(?:MultiDict(?:Proxy)?\((?=[\"'])|Headers\((?=[{\[])(?!\[redacted))([^\n]*?)(?=\)>|\}\)|\]\)|$)", re.MULTILINE
)


def assigned_spans(text: str, names: SecretNames) -> Iterator[Span]:
    """Yield where values stand whose names say that they are secret; unordered."""
    if "Headers(" in text or "MultiDict" in text:
        yield from (found.span(1) for found in _HEADERS.finditer(text))
    lowered = text.lower()
    if not any(map(lowered.__contains__, names.hints)):
        return
    yield from _spans(text, names, _NAMED)
    if "--" in text or " -" in text:
        yield from _spans(text, names, _FLAG)
    if "(" in text:
        yield from _spans(text, names, _PAIR)


def _spans(text: str, names: SecretNames, named: re.Pattern[str]) -> Iterator[Span]:
    found = named.search(text)
    while found is not None:
        end = found.end()
        verdict = names.verdict(found["name"])
        if verdict is not NameVerdict.NOTHING and (span := _value(text, found, verdict)):
            yield span
            # Hidden text need not be searched again.
            end = max(end, span[1])
        found = named.search(text, end)


def _value(text: str, named: re.Match[str], verdict: NameVerdict) -> Span | None:
    """Return the span of the value after a name if it must be hidden; `verdict` is the verdict on the name."""
    start, quote, name = named.end(), named["quote"], named["name"]
    name_is_quoted = named.re is _NAMED and named["name_quote"] is not None
    if quote is not None:
        end = _closing(text, start, quote)
        value = text[start:end]
        # In quotes on both sides it is data; else it may be code or prose.
        if is_secret(verdict, value) if name_is_quoted else is_opaque(value):
            return start, end
        scheme = _SCHEME.match(value) if verdict is NameVerdict.SURELY and not name_is_quoted else None
        scheme = scheme or (_SCHEME_OF_PARAMETERS.match(value) if folded(name).endswith(_CREDENTIALS) else None)
        return (start + scheme.end(), end) if scheme is not None else None
    header = folded(name)
    if header.endswith(_CREDENTIALS) and (found := _SCHEME_OF_PARAMETERS.match(text, start)) is not None:
        return found.end(), _end_of_parameters(text, found.end())
    if header.endswith(_CREDENTIALS) and (found := _SCHEME.match(text, start)) is not None:
        token = _UNQUOTED.match(text, found.end())
        if found["whole"]:
            return found.end(), _end_of_line(text, found.end())
        return token.span() if token is not None and is_secret(NameVerdict.SURELY, token[0]) else None
    if header in _COOKIES and (found := _COOKIE.match(text, start)) is not None:
        return found.span()
    if verdict is NameVerdict.SURELY and name_is_quoted and (found := _NUMBER.match(text, start)) is not None:
        return found.span()
    found = _UNQUOTED.match(text, start, start + _LOOKED_AT)
    if found is None or text.startswith(_OPENING, found.end()):
        return None
    if is_opaque(found[0]) or (verdict is NameVerdict.SURELY and _is_setting(text, found, name)):
        whole = _UNQUOTED.match(text, start)
        return whole.span() if whole is not None else None
    return None


def _is_setting(text: str, value: re.Match[str], name: str) -> bool:
    """Tell whether a value belongs to a variable or option, `NAME=value`; code continues with a comma or a bracket."""
    after = text[value.end() : value.end() + 1]
    is_bare = text.startswith(f"{name}=", value.start() - len(name) - 1) and (
        not after or after.isspace() or after in ";&"
    )
    return (
        is_bare and len(value[0]) > 3 and value[0].lower() != name.lower() and is_secret(NameVerdict.SURELY, value[0])
    )


def _closing(text: str, start: int, quote: str) -> int:
    """Return the end of a quoted text, or of its line if the quote is never closed.

    `quote` has the backslashes it has inside texts in texts (JSON in JSON): 0, 1, 3 ... A quote with fewer ends the
    enclosing text.
    """
    own = len(quote) - 1
    at = text.find(quote[-1], start)
    while at >= 0:
        backslashes = at - start - len(text[start:at].rstrip("\\"))
        if backslashes < own or backslashes % (2 * own + 2) == own:
            return at - min(backslashes, own)
        at = text.find(quote[-1], at + 1)
    return _end_of_line(text, start)


def _end_of_parameters(text: str, start: int) -> int:
    """Return the end of a list of `name=value` and `name="value"`, as in RFC 9110 (section 11.2)."""
    end = start
    while (found := _PARAMETER.match(text, end)) is not None:
        if found["quote"] is None:
            word = _PARAMETER_WORD.match(text, found.end())
            assert word is not None, "it matches nothing at all too"
            end = word.end()
        else:
            end = _closing(text, found.end(), found["quote"])
            end += len(found["quote"]) if text.startswith(found["quote"], end) else 0
    return end


def _end_of_line(text: str, start: int) -> int:
    found = _REST_OF_LINE.match(text, start)
    return found.end() if found is not None else start
