"""Keys that are recognised by their form alone: issuers begin them with their own prefix, such as `ghp_`.

Law: linear time. A form is matched only if its head begins a run of characters, and only repeats one class of them; a
form without a head is searched for only in a text with a rare sign of it.
"""

import re
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from typing import Final

from aggregator.redaction.field_names import is_opaque
from aggregator.redaction.spans import Span

# The heads of a form, and the rest after each; every form begins as a run of letters, digits, `_` and `-`.
_FORMS: Final = (
    ("AKIA ASIA ABIA ACCA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),  # AWS access key ids
    ("LTAI", r"[A-Za-z0-9]{16,24}(?![A-Za-z0-9])"),  # Alibaba Cloud
    ("AKID", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),  # Tencent Cloud
    ("AIza", r"[\w-]{35}"),  # Google
    ("GOCSPX-", r"[\w-]{20,}"),
    ("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,}"),  # GitHub
    ("github_pat_", r"\w{40,}"),
    (
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct-",
        r"[\w-]{20,}(?:\.[\w-]{2,20}){0,3}",
    ),  # GitLab
    ("xoxa- xoxb- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", r"[A-Za-z0-9-]{15,}"),  # Slack
    ("sk_live_ sk_test_ sk_prod_ sk_org_ rk_live_ rk_test_ rk_prod_", r"[A-Za-z0-9]{10,}"),  # Stripe
    ("sk-", r"(?=[A-Za-z_-]{0,40}[0-9])[\w-]{20,}"),  # OpenAI, Anthropic, DeepSeek, OpenRouter, Langfuse and more
    ("gsk_ xai- pplx-", r"[A-Za-z0-9]{40,}"),  # Groq, xAI, Perplexity
    ("r8_", r"[A-Za-z0-9]{37}(?![A-Za-z0-9])"),  # Replicate
    ("tvly-", r"[\w-]{20,}"),  # Tavily
    ("fc-", r"[0-9a-f]{32}(?![0-9a-f])"),  # Firecrawl
    ("BSA", r"[\w-]{24,40}(?![\w-])"),  # Brave
    ("hf_ api_org_", r"[A-Za-z0-9]{30,}"),  # Hugging Face
    ("lsv2_pt_ lsv2_sk_", r"[0-9a-f]{32}_[0-9a-f]{10}"),  # LangSmith
    ("npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("pypi-AgE", r"[\w-]{50,}"),
    ("rubygems_", r"[0-9a-f]{48}"),
    ("dckr_pat_ dckr_oat_", r"[\w-]{20,}"),  # Docker
    ("SK AC", r"[0-9a-f]{32}(?![0-9A-Za-z])"),  # Twilio
    ("key-", r"[0-9a-f]{32}(?![0-9A-Za-z])"),  # Mailgun
    ("dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}"),  # DigitalOcean
    ("dapi", r"[0-9a-f]{32}(?:-[0-9]{1,2})?(?![0-9A-Za-z])"),  # Databricks
    ("HRKU-", r"[\w-]{36,}"),  # Heroku
    ("pul-", r"[0-9a-f]{40}"),  # Pulumi
    ("glsa_", r"[A-Za-z0-9]{32}_[0-9a-f]{8}"),  # Grafana
    ("NRAK-", r"[A-Z0-9]{27}"),  # New Relic
    ("PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),  # Postman
    ("secret_", r"[A-Za-z0-9]{43}(?![A-Za-z0-9])"),  # Notion
    ("ntn_", r"[A-Za-z0-9]{40,}"),
    ("lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,}"),  # Linear
    ("figd_", r"[\w-]{36,}"),  # Figma
    ("ATATT3x ATCTT3x", r"[\w=-]{50,}"),  # Atlassian
    ("ATBB", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),  # Bitbucket
    ("shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}"),  # Shopify
    ("sq0atp- sq0csp- sq0idp-", r"[\w-]{22,}"),  # Square
    ("EAA", r"[A-Za-z0-9]{60,}"),  # Facebook
    ("sbp_", r"[0-9a-f]{40}"),  # Supabase
    ("sb_secret_", r"[\w-]{20,}"),
    ("pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w.=-]{32,200}"),  # PlanetScale
    ("AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    ("M N O", r"[\w-]{23,27}\.[\w-]{6,7}\.[\w-]{27,40}(?![\w-])"),  # Discord
    ("eyJ", r"[\w-]{15,}\.\.?[\w-]{10,}(?:\.[\w-]*){1,3}"),  # JWT (RFC 7519), JWE (RFC 7516)
    ("agk_", r"[a-z2-9]{10}_[A-Za-z0-9]{43,49}"),  # our own
    ("agr_", r"[\w-]{24}"),  # handles of our kept results
)
_OURS: Final = len("agk_0123456789_")  # the key's id may be shown
_HEADER: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_FOOTER: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LONGEST: Final = 16 * 1024
# Lines of base64 with their possible separators: escaped line breaks, quotes, a margin.
_BETWEEN: Final = r"(?:\\+[rn]|[\s\"'>|,+])*+"
_BODY: Final = re.compile(
    rf"(?:{_BETWEEN}[A-Za-z0-9+/]{{20,76}}+={{0,2}})++(?:{_BETWEEN}[A-Za-z0-9+/]{{1,19}}+={{0,2}})?"
)
# What a server prints arrives line by line.
_LINE: Final = re.compile(r"^[A-Za-z0-9+/]{64}$", re.MULTILINE)
_LETTERS_IN_A_ROW: Final = b"a" * 64
_LETTER_RUNS: Final = bytes(97 if chr(byte).isalnum() or byte in b"+/" else 32 for byte in range(128)) + b" " * 128
_DIGIT: Final = re.compile(r"[0-9]")


def _by_head() -> dict[str, str]:
    """Return the first characters of heads, three at most, and the forms that begin with them."""
    grouped: dict[str, list[str]] = {}
    for heads, rest in _FORMS:
        for head in heads.split():
            grouped.setdefault(head[:3], []).append(re.escape(head) + rest)
    return {start: "|".join(forms) for start, forms in grouped.items()}


_BY_HEAD: Final = _by_head()
# All of these hold so many letters, digits, `_` and `-` in a row, as few other texts do.
_IN_A_ROW: Final = b"a" * 18
_RUNS: Final = bytes(97 if chr(byte).isalnum() or byte in b"_-" else 32 for byte in range(128)) + b" " * 128
# Characters of an escape that may end unnoticed just before a key, by the escape's first character.
_ESCAPES: Final = {"\\": (1, 3, 5), "%": (2,)}

# Forms that begin differently, or with other kinds of characters: a sign of each, the number of characters allowed
# before it, the characters forbidden before those, and the form.
_SIGNED_FORMS: Final = (
    ("SG.", (0,), r"\w", r"SG\.[\w-]{18,32}\.[\w-]{16,64}"),  # SendGrid
    ("hv", (0,), r"\w", r"hv[bsr]\.[\w-]{24,}"),  # Vault
    ("ya29.", (0,), r"\w", r"ya29\.[\w-]{20,}"),  # Google
    ("1//0", (0,), r"\w", r"1//0[\w-]{20,}"),
    ("dp.", (0,), r"\w", r"dp\.(?:pt|st|sa|ct|scim|audit)\.(?:[\w-]{1,40}\.)?[\w-]{40,}"),  # Doppler
    ("pat", (0,), r"\w", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),  # Airtable
    ("whsec_", (0,), r"\w", r"whsec_[A-Za-z0-9+/]{24,}={0,2}"),  # Stripe
    ("glc_", (0,), r"\w", r"glc_[A-Za-z0-9+/]{32,}={0,2}"),  # Grafana
    ("sntry", (0,), r"\w", r"sntry[su]_[\w+/-]{40,}={0,2}(?:_[\w+/-]{20,}={0,2})?"),  # Sentry
    ("hooks.slack.com/", (0,), r"\w", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,}"),
    (".atlasv1.", (14,), r"\w", r"\w{14}\.atlasv1\.[\w=-]{40,200}"),  # Terraform
    ("Q~", (4,), r"[\w~.-]", r"[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}(?![\w~-])"),  # Microsoft Entra ID
    (":AA", (10, 9, 8), r"\w", r"[0-9]{8,10}:AA[\w-]{33}(?![\w-])"),  # Telegram
    ("==", (86,), r"[A-Za-z0-9+/=-]", r"[A-Za-z0-9+/]{86}=="),  # Azure storage; `sha512-...` is none
)
_SIGNED: Final = tuple(
    (sign, offsets, rf"(?:(?<!{before})|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{{2}})){form}")
    for sign, offsets, before, form in _SIGNED_FORMS
)
# All of these hold so many letters, digits and `_-+/.~` in a row.
_SIGNED_IN_A_ROW: Final = b"a" * 24
_SIGNED_RUNS: Final = bytes(97 if chr(byte).isalnum() or byte in b"_-+/.~" else 32 for byte in range(128)) + b" " * 128
# An AWS secret has no form of its own; the search looks near an id.
_AWS_IDS: Final = ("AKIA", "ASIA")
_AWS_SECRET: Final = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])")
_BEARER: Final = re.compile(r"[Bb](?:earer|EARER)(?:[ \t]|%20|\+){1,4}([A-Za-z0-9._~+/-]{8,}=*)")
_BASIC: Final = re.compile(r"[Bb](?:asic|ASIC)(?:[ \t]|%20|\+){1,4}([A-Za-z0-9+/_-]{8,}={0,2})")
_LONGER_THAN_WORDS: Final = 24
_STANDARD: Final = str.maketrans("-_", "+/")


def key_spans(text: str) -> Iterator[Span]:
    """Yield where keys of a known form stand; unordered."""
    data = text.encode("ascii", "replace")
    runs = data.translate(_RUNS)
    if (start := runs.find(_IN_A_ROW)) >= 0:
        yield from _forms(text, runs, start)
    if _SIGNED_IN_A_ROW in data.translate(_SIGNED_RUNS):
        for sign, offsets, form in _SIGNED:
            yield from _signed(text, sign, offsets, form)
    yield from private_key_spans(text)
    if "earer" in text or "EARER" in text:
        for found in _BEARER.finditer(text):
            if len(found[1]) >= _LONGER_THAN_WORDS or is_opaque(found[1]):
                yield found.span(1)
    if "asic" in text or "ASIC" in text:
        yield from (found.span(1) for found in _BASIC.finditer(text) if _is_login(found[1]))


def _forms(text: str, runs: bytes, start: int) -> Iterator[Span]:
    """Yield the keys that begin at the start of a long run, the first of which begins at `start`."""
    beside_an_aws_id = False
    while start >= 0:
        before = text[start - 1] if start else ""
        for at in (start, *(start + length for length in _ESCAPES.get(before, ()))):
            forms = (
                _BY_HEAD.get(text[at : at + 3]) or _BY_HEAD.get(text[at : at + 2]) or _BY_HEAD.get(text[at : at + 1])
            )
            if forms is not None and (found := _compiled(forms).match(text, at)) is not None:
                beside_an_aws_id |= text.startswith(_AWS_IDS, at)
                yield at + _OURS if text.startswith("agk_", at) else at, found.end()
        end = runs.find(b" ", start)
        start = runs.find(_IN_A_ROW, end) if end >= 0 else -1
    if beside_an_aws_id:
        yield from (found.span() for found in _AWS_SECRET.finditer(text) if is_random(found[0]))


def _signed(text: str, sign: str, offsets: tuple[int, ...], form: str) -> Iterator[Span]:
    at = text.find(sign)
    while at >= 0:
        starts = (at - offset for offset in offsets if at >= offset)
        found = next((found for start in starts if (found := _compiled(form).match(text, start))), None)
        if found is not None:
            yield found.span()
        at = text.find(sign, found.end() if found is not None else at + 1)


@cache
def _compiled(form: str) -> re.Pattern[str]:
    """Compiled when first needed: every start of the program would pay for all of them."""
    return re.compile(form, re.ASCII)


def _is_login(text: str) -> bool:
    """Return whether a text is `user:password` in base64 (RFC 7617)."""
    try:
        return b":" in b64decode(text.translate(_STANDARD) + "==")
    except ValueError:
        return False


def private_key_spans(text: str) -> Iterator[Span]:
    """Yield where private keys stand, and lines that look like lines of one; unordered."""
    if (len(text) == 64 or "\n" in text) and _LETTERS_IN_A_ROW in text.encode("ascii", "replace").translate(
        _LETTER_RUNS
    ):
        yield from (found.span() for found in _LINE.finditer(text) if is_random(found[0]))
    if "-----BEGIN " not in text:
        return
    footer: re.Match[str] | None = None
    searched_from = -1
    for header in _HEADER.finditer(text):
        if searched_from < 0 or (footer is not None and footer.start() < header.end()):
            searched_from = header.end()
            footer = _FOOTER.search(text, searched_from)
        if footer is not None and footer.end() - header.start() <= _LONGEST:
            yield header.start(), footer.end()
        elif (body := _BODY.match(text, header.end())) is not None:
            yield header.start(), body.end()


def is_random(text: str) -> bool:
    """Return whether base64 looks like random bytes, as opposed to a number, a hexadecimal digest or a word."""
    return _DIGIT.search(text) is not None and not text.isupper() and not text.islower()
