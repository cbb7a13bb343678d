"""Keys of many issuers, made anew from their grammar for each run: each is found by its form alone."""

import base64
import json
import random
import string
from collections.abc import Callable
from typing import Final

import pytest

from aggregator.identity.keys import new_key
from aggregator.redaction.redactor import REDACTED, Redactor

redact = Redactor()

ALNUM: Final = string.ascii_letters + string.digits
UPPER: Final = string.ascii_uppercase + string.digits
BASE32: Final = string.ascii_uppercase + "234567"
HEX: Final = "0123456789abcdef"
URLSAFE: Final = f"{ALNUM}_-"
BASE64: Final = f"{ALNUM}+/"
DIGITS: Final = string.digits

# `head|alphabet*length|text|alphabet*length ...`: no key stands here whole, and none is anybody's.
_ALPHABETS: Final = {"a": ALNUM, "U": UPPER, "B": BASE32, "h": HEX, "u": URLSAFE, "6": BASE64, "d": DIGITS, "l": None}
GRAMMARS: Final = {
    "AWS access key": "AKIA|B*16",
    "AWS temporary key": "ASIA|B*16",
    "Alibaba Cloud": "LTAI|a*20",
    "Tencent Cloud": "AKID|a*32",
    "GitHub personal": "ghp_|a*36",
    "GitHub OAuth": "gho_|a*36",
    "GitHub user": "ghu_|a*36",
    "GitHub server": "ghs_|a*36",
    "GitHub refresh": "ghr_|a*76",
    "GitHub fine-grained": "github_pat_|a*22|_|a*59",
    "GitLab": "glpat-|u*20",
    "GitLab routable": "glpat-|u*27|.01.|a*9",
    "GitLab runner": "glrt-|u*20",
    "Slack bot": "xoxb-|d*12|-|d*13|-|a*24",
    "Slack user": "xoxp-|d*12|-|d*12|-|d*12|-|h*32",
    "Slack app": "xapp-|1-A|U*10|-|d*13|-|h*64",
    "Slack webhook": "https://hooks.slack.com/services/|T|U*8|/B|U*10|/|a*24",
    "Stripe": "sk_live_|a*24",
    "Stripe, long": "sk_live_51|a*97",
    "Stripe restricted": "rk_live_|a*24",
    "Stripe webhook": "whsec_|6*32",
    "OpenAI": "sk-|a*20|T3BlbkFJ|a*20",
    "OpenAI project": "sk-proj-|u*74|T3BlbkFJ|u*74",
    "OpenAI service": "sk-svcacct-|u*74|T3BlbkFJ|u*74",
    "Anthropic": "sk-ant-api03-|u*93|AA",
    "Anthropic admin": "sk-ant-admin01-|u*93|AA",
    "DeepSeek": "sk-|h*32",
    "OpenRouter": "sk-or-v1-|h*64",
    "Groq": "gsk_|a*52",
    "xAI": "xai-|a*80",
    "Perplexity": "pplx-|a*48",
    "Replicate": "r8_|a*37",
    "Hugging Face": "hf_|a*34",
    "LangSmith": "lsv2_pt_|h*32|_|h*10",
    "Tavily": "tvly-|a*32",
    "Firecrawl": "fc-|h*32",
    "Brave": "BSA|u*28",
    "Google": "AIza|u*35",
    "Google client": "GOCSPX-|u*28",
    "Google access": "ya29.|u*160",
    "Google refresh": "1//0|u*60",
    "Azure storage": "AccountKey=|6*86|==",
    "Azure storage, bare": "|6*86|==",
    "Azure SAS": "https://x.blob.core.windows.net/c?sv=2024-11-04&sig=|6*43|%3D",
    "Microsoft Entra": "|a*3|8Q~|u*34",
    "npm": "npm_|a*36",
    "PyPI": "pypi-AgEIcHlwaS5vcmc|u*150",
    "RubyGems": "rubygems_|h*48",
    "Docker": "dckr_pat_|u*27",
    "SendGrid": "SG.|u*22|.|u*43",
    "Twilio key": "SK|h*32",
    "Twilio account": "AC|h*32",
    "Mailgun": "key-|h*32",
    "Telegram": "|d*10|:AA|u*33",
    "Discord": "M|a*23|.|u*6|.|u*38",
    "DigitalOcean": "dop_v1_|h*64",
    "Databricks": "dapi|h*32",
    "Databricks, numbered": "dapi|h*32|-3",
    "Vault": "hvs.|u*90",
    "Terraform": "|a*14|.atlasv1.|u*67",
    "Heroku": "HRKU-|AA|u*58",
    "Pulumi": "pul-|h*40",
    "Doppler": "dp.pt.|a*43",
    "Doppler service": "dp.st.dev.|a*43",
    "Grafana service": "glsa_|a*32|_|h*8",
    "Grafana Cloud": "glc_|6*100",
    "New Relic": "NRAK-|U*27",
    "Sentry": "sntrys_|6*120",
    "Postman": "PMAK-|h*24|-|h*34",
    "Notion": "secret_|a*43",
    "Notion, new": "ntn_|a*46",
    "Linear": "lin_api_|a*40",
    "Figma": "figd_|u*40",
    "Atlassian": "ATATT3x|u*180|=|U*8",
    "Bitbucket": "ATBB|a*32",
    "Shopify": "shpat_|h*32",
    "Square": "sq0atp-|u*22",
    "Facebook": "EAA|a*180",
    "Airtable": "pat|a*14|.|h*64",
    "Supabase": "sbp_|h*40",
    "Supabase secret": "sb_secret_|u*31",
    "PlanetScale": "pscale_tkn_|u*43",
    "age": "AGE-SECRET-KEY-1|U*58",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJ|u*60|.|u*43",
    "JWE": "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..|u*16|.|u*80|.|u*22",
    "PostgreSQL": "postgresql://app:|a*16|@db.example.com:5432/x",
    "MySQL": "mysql+pymysql://root:|u*12|@10.0.0.1/x",
    "Redis": "rediss://:|a*32|@cache.example.com:6380/0",
    "MongoDB": "mongodb+srv://me:|a*14|@c0.example.net/?retryWrites=true",
    "AMQP": "amqps://me:|a*14|@mq.example.com/vhost",
    "Bearer": "Bearer |u*40",
    "AWS secret": "aws_secret_access_key = |6*40",
    "AWS secret beside its id": "AKIA|B*16| and then |6*40",
    "AMap": "https://restapi.amap.com/v3/geocode/geo?address=x&key=|h*32",
}


def make(grammar: str, seed: int) -> tuple[str, list[str]]:
    """Return a text with a key in it, and the pieces of the key that must be redacted."""
    rng = random.Random(f"{grammar}{seed}")  # noqa: S311
    text, secret = "", []
    for part in grammar.split("|"):
        kind, star, length = part.partition("*")
        alphabet = _ALPHABETS.get(kind) if star else None
        if alphabet is None:
            text += part
            continue
        piece = ""
        # A long run without a digit, or in one case only, would be a word: random keys hardly ever are.
        while not piece or (len(piece) >= 12 and alphabet != DIGITS and not is_mixed(piece, alphabet)):
            piece = "".join(rng.choice(alphabet) for _ in range(int(length)))
        text += piece
        secret.append(piece)
    return text, [piece for piece in secret if len(piece) >= 12]


def is_mixed(piece: str, alphabet: str) -> bool:
    """Return whether a piece has a digit, a letter, and both cases where the alphabet has them."""
    both = alphabet.upper() != alphabet != alphabet.lower()
    return not piece.isalpha() and not piece.isdigit() and not (both and piece in (piece.upper(), piece.lower()))


AROUND: Final[dict[str, Callable[[str], str]]] = {
    "alone": str,
    "in a sentence": lambda key: f"refused with {key}, try another",
    "quoted": lambda key: f"using '{key}'.",
    "in JSON": lambda key: json.dumps({"said": f"it is\n{key}"}),
    "in JSON in JSON": lambda key: json.dumps(json.dumps([f"\t{key}\n"])),
    "after an encoded sign": lambda key: f"x%3D{key}%26y",
    "beside Chinese": lambda key: f"密钥：{key}。",
}


@pytest.mark.parametrize("issuer", GRAMMARS)
def test_keys_of_known_forms_are_found(issuer: str) -> None:
    """Proves: D9. In logs and in values that are kept, whatever is around them."""
    for seed, around in enumerate(AROUND.values()):
        key, pieces = make(GRAMMARS[issuer], seed)
        assert pieces
        text = around(key)
        for told in (redact(text), redact.value(text), redact.value({"x": [text]})["x"][0]):
            assert REDACTED in told
            assert [piece for piece in pieces if piece in told] == []


@pytest.mark.parametrize("issuer", GRAMMARS)
def test_what_only_begins_like_a_key_is_none(issuer: str) -> None:
    """In the middle of a word, or far too short."""
    key, _ = make(GRAMMARS[issuer], 1)
    if "://" not in key and " " not in key and "=" not in key.rstrip("="):
        short = key[: min(len(key) // 3, 14)]
        for text in (f"x{short}", f"see {short} for more", short):
            assert redact(text) is text


def test_our_own_keys_are_found_and_can_be_told_apart() -> None:
    """Proves: D9. The id of a key is no secret; an admin looks it up by it."""
    for number in range(20):
        key = new_key("bot", now=float(number)).text
        _, key_id, secret = key.split("_")
        assert redact(f"refused {key}!") == f"refused agk_{key_id}_{REDACTED}!"
        assert secret not in redact.value(json.dumps({"k": key}))


def private_key(kind: str, size: int) -> str:
    """Return a text that looks like a private key in a file (RFC 7468)."""
    body = base64.b64encode(random.Random(kind).randbytes(size)).decode()  # noqa: S311
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])


@pytest.mark.parametrize("kind", [f"{kind}PRIVATE KEY" for kind in ("", "RSA ", "EC ", "ENCRYPTED ", "OPENSSH ")])
def test_private_keys_are_found_whole_cut_and_line_by_line(kind: str) -> None:
    """Proves: D9. As a file, in the JSON of a service account, cut off, and as a server prints it."""
    pem = private_key(kind, 610)
    lines = pem.splitlines()[1:-1]
    account = json.dumps({"type": "service_account", "id": "x1", "private": pem, "uri": "https://e.com"})
    for text in (pem, account, json.dumps(account), pem[:-60], f"a: |\n{pem.replace(chr(10), chr(10) + '    ')}\nb: c"):
        told = redact.value(text)
        assert REDACTED in told
        assert [line for line in lines if line[:20] in told] == []
    kept = {"type": "service_account", "id": "x1", "private": f"{REDACTED}\n", "uri": "https://e.com"}
    assert json.loads(redact.value(account)) == kept
    for line in lines[:-1]:
        assert redact(line) == REDACTED


def test_a_certificate_is_no_private_key() -> None:
    text = "-----BEGIN CERTIFICATE-----\nMIIB...\n-----END CERTIFICATE-----\nand -----BEGIN PRIVATE KEY----- begins one"
    assert redact(text) is text


def test_a_login_is_one_only_if_it_is() -> None:
    """Proves: D9. HTTP Basic: a word behind `basic` is a login if a name and a password come out of it."""
    login = base64.b64encode(b"me:correct horse").decode()
    assert redact(f"sent Basic {login} to it") == f"sent Basic {REDACTED} to it"
    for text in ("Basic information about", "basic authentication1", f"Basic {base64.b64encode(b'no colon').decode()}"):
        assert redact(text) is text
