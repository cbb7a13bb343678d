"""Authentication at single moments: what an earlier one is still worth after a change, for each kind of credentials."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.config.auth.issuers import AuthConfig, IssuerConfig
from aggregator.domain.principal import LOCAL, Principal, TokenFacts
from aggregator.gateway import access
from aggregator.gateway.access import Access
from aggregator.gateway.views.views import Views
from aggregator.identity.identify import Refused, RequestFacts
from aggregator.identity.keys import new_key
from aggregator.identity.source import source_of
from aggregator.identity.throttle import LONGEST
from aggregator.identity.tokens.rejection import Rejection, Unverified
from aggregator.identity.tokens.verifier import VerifiedToken
from aggregator.policy.rulebook import Rulebook
from tests.peers.toolbox import Json
from tests.policy.build import book

NOW: Final = 1_800_000_000.0
BOT: Final = new_key("bot", now=0.0)
ENDS: Final = new_key("bot", now=0.0, expires=NOW + 60)
OTHER: Final = new_key("other", now=0.0)
IDP: Final = "https://idp.example.com"
TENANTS: Final[Json] = {"t": {"servers": ["one"]}, "u": {"servers": ["two"]}}
AGENTS: Final[Json] = {"bot": {"allow": ["*"]}, "other": {"allow": ["*"]}}
WHO: Final = [{"subject": "alice", "agent": "bot"}, {"subject": "bob", "agent": "other"}]


def rules(**agents: Any) -> Rulebook:
    named: Json = {**AGENTS, **agents}
    return book({"roles": {"r": {}, "s": {}}, "tenants": TENANTS, "agents": named, "who": WHO})


class Tokens:
    """The tokens of one issuer, which say what the test has them say."""

    def __init__(self) -> None:
        self.config = SimpleNamespace(issuers=(IDP,))
        self.revision = object()
        self.verified: dict[str, VerifiedToken] = {}
        self.checked: dict[str, Rejection | None] = {}
        self.asked: dict[str, Any] = {}
        self.over: set[str] = set()
        self.noted: list[TokenFacts] = []
        self.asking = asyncio.Event()
        self.asking.set()
        self.waiting = 0

    def known(self, text: str, now: float) -> VerifiedToken | None:
        found = self.verified.get(text)
        return found if found is not None and now < found.until else None

    def check(self, text: str, now: float) -> Rejection | None:
        return self.checked.get(text)

    async def verify(self, text: str) -> Any:
        self.waiting += 1
        await self.asking.wait()
        self.waiting -= 1
        return self.asked[text]

    def still(self, facts: TokenFacts, now: float) -> TokenFacts | None:
        return facts if facts.subject not in self.over and now < facts.expires else None

    def note(self, facts: TokenFacts) -> None:
        self.noted.append(facts)


class Here:
    """The authentication of a process, with its clock, keys, tokens and rules."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, tokens: bool = True) -> None:
        self.now = NOW
        monkeypatch.setattr(access, "time", SimpleNamespace(time=lambda: self.now))
        self.live = SimpleNamespace(rulebook=rules())
        self.refused: list[Refused] = []
        observer = SimpleNamespace(login_refused=lambda facts, refused: self.refused.append(refused))
        self.access = Access(Views(self.live, {}), observer)  # type: ignore[arg-type]
        self.access.keyring.use_policy_keys([BOT.record, ENDS.record, OTHER.record])
        self.tokens = Tokens()
        if tokens:
            self.access.tokens = self.tokens  # type: ignore[assignment]

    def token(self, text: str, subject: str = "alice", lasts: float = 60.0) -> TokenFacts:
        """Verify a token."""
        facts = TokenFacts(IDP, subject, expires=NOW + lasts, text=text)
        self.tokens.verified[text] = VerifiedToken(facts, NOW + lasts)
        return facts

    def ask(self, credential: str | None, **more: Any) -> Principal | Refused:
        return self.access.authenticate(self.facts(credential, **more))

    def facts(self, credential: str | None, peer: str = "127.0.0.1", **more: Any) -> RequestFacts:
        sent = (f"Bearer {credential}",) if credential is not None else ()
        source = source_of(peer, "localhost", "1.1", [(b"accept", b"x")])
        return RequestFacts("http", authorization=sent, source=source, **more)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(monkeypatch)


def local(here: Here) -> str | None:
    here.live.rulebook = rules(local={"allow": ["*"]})
    return None


def a_token(here: Here) -> str | None:
    here.token("token")
    return "token"


CREDENTIALS: Final[dict[str, Callable[[Here], str | None]]] = {
    "key": lambda here: BOT.text,
    "key that ends": lambda here: ENDS.text,
    "token": a_token,
    "nothing": local,
}


def _wait(here: Here) -> None:
    here.now += 60.0


def _other_keys(here: Here) -> None:
    here.access.keyring.use_policy_keys([OTHER.record])


def _new_rules(here: Here) -> None:
    here.live.rulebook = rules(**({"local": {"allow": ["*"]}}))


def _role(here: Here) -> None:
    here.live.rulebook = rules(bot={"allow": ["*"], "roles": ["r"]}, local={"allow": ["*"], "roles": ["r"]})


def _tenant(here: Here) -> None:
    here.live.rulebook = rules(bot={"allow": ["*"], "tenant": "t"}, local={"allow": ["*"], "tenant": "t"})


def _no_agent(here: Here) -> None:
    here.live.rulebook = book({"agents": {"other": AGENTS["other"]}})


def _other_issuer_keys(here: Here) -> None:
    here.tokens.revision = object()


def _token_over(here: Here) -> None:
    here.tokens.over.add("alice")


def _no_issuer(here: Here) -> None:
    here.access.accept(AuthConfig())


def _locked(here: Here) -> None:
    here.access.locked = "keys may be lost"


def _nothing(here: Here) -> None: ...


# By change: for whom what runs goes on, and for whom an authentication is repeated without a look.
CHANGES: Final[dict[str, tuple[Callable[[Here], None], str, str]]] = {
    "nothing": (_nothing, "key, key that ends, token, nothing", "key, key that ends, token, nothing"),
    "a minute": (_wait, "key, nothing", "key, nothing"),
    "the key is gone": (_other_keys, "token, nothing", ""),
    "other rules that say the same": (_new_rules, "key, key that ends, token, nothing", ""),
    "a role more": (_role, "key, key that ends, nothing", ""),
    "a tenant": (_tenant, "key, key that ends, nothing", ""),
    "the agent is gone": (_no_agent, "key, key that ends", ""),
    "other keys of the issuer": (_other_issuer_keys, "key, key that ends, token, nothing", ""),
    "the token is over": (_token_over, "key, key that ends, nothing", "key, key that ends, token, nothing"),
    "no issuer is accepted": (_no_issuer, "key, key that ends, nothing", ""),
    "keys may be lost": (_locked, "key, key that ends, token, nothing", ""),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", CREDENTIALS)
def test_what_an_authentication_is_worth_after_a_change(here: Here, kind: str, change: str) -> None:
    """For what runs, and for the next request with the same head."""
    principal = here.ask(CREDENTIALS[kind](here))
    assert isinstance(principal, Principal)
    before = here.access.authentication(principal)
    if kind == "nothing" and change == "nothing":
        assert here.access.keyless
    if change in ("other rules that say the same", "the key is gone") and kind == "nothing":
        local(here)
        before = here.access.authentication(principal)
    change_it, goes_on, repeated = CHANGES[change]
    change_it(here)
    assert here.access.holds(principal) is (kind in goes_on.split(", "))
    assert (here.access.repeated(before) is principal) is (kind in repeated.split(", "))


@pytest.mark.parametrize(
    ("policies", "keys", "tokens", "locked", "is_open", "keyless"),
    [
        (None, False, False, False, True, True),
        (None, True, False, False, False, False),
        (None, False, True, False, False, False),
        (None, False, False, True, False, False),
        (rules(), False, False, False, False, False),
        (rules(local={"allow": ["*"]}), True, True, False, False, True),
        (rules(local={"allow": ["*"]}), True, True, True, False, False),
    ],
)
def test_who_needs_no_key(
    monkeypatch: pytest.MonkeyPatch,
    policies: Rulebook | None,
    keys: bool,
    tokens: bool,
    locked: bool,
    is_open: bool,
    keyless: bool,
) -> None:
    here = Here(monkeypatch, tokens=tokens)
    here.live.rulebook = policies
    if not keys:
        here.access.keyring = type(here.access.keyring)()
    here.access.locked = "keys may be lost" if locked else None
    assert here.access.open is is_open
    assert here.access.keyless is keyless
    said = here.access.keyless_text()
    assert ("are refused" in said) is not keyless
    assert ("or a token" in said) is (tokens and not keyless)
    assert ("may do everything" in said) is is_open
    found = here.ask(None)
    assert (found == LOCAL if keyless else isinstance(found, Refused)) or isinstance(found, Principal)
    assert isinstance(found, Principal) is keyless


def test_keys_that_were_all_removed_let_nobody_in_without_one(here: Here) -> None:
    here.live.rulebook, here.access.tokens = None, None
    here.access.keyring.use_policy_keys([])
    assert not here.access.open


@pytest.mark.parametrize(
    ("agent", "key_id", "subject", "tokens", "expected"),
    [
        ("bot", "its own", None, True, True),
        ("other", "its own", None, True, False),
        ("bot", "unknown", None, True, False),
        ("bot", None, None, True, False),
        ("local", None, None, True, True),
        ("bot", None, "alice", True, True),
        ("other", None, "alice", True, False),
        ("bot", None, "alice", False, False),
        ("bot", "its own", "alice", True, False),
        ("bot", None, "stranger", True, False),
    ],
)
def test_who_another_replica_let_in(
    here: Here, agent: str, key_id: str | None, subject: str | None, tokens: bool, expected: bool
) -> None:
    local(here)
    if not tokens:
        here.access.tokens = None
    # A made key has another id in each process of the suite, which no name of a test may have.
    key_id = BOT.record.key_id if key_id == "its own" else key_id
    facts = TokenFacts(IDP, subject, expires=NOW + 60) if subject is not None else None
    found = here.access.let_in(agent, key_id, facts)
    assert (found is not None) is expected
    if found is not None:
        assert (found.agent_id, found.key_id, found.token) == (agent, key_id, facts)
        assert here.tokens.noted == ([facts] if facts is not None else [])


def test_a_token_of_another_replica_that_is_over_lets_nobody_in(here: Here) -> None:
    facts = TokenFacts(IDP, "alice", expires=NOW + 60)
    here.tokens.over.add("alice")
    assert here.access.let_in("bot", None, facts) is None
    local(here)
    here.access.locked = "keys may be lost"
    assert here.access.let_in("local", None) is not None
    here.live.rulebook = rules()
    assert here.access.let_in("local", None) is None


@pytest.mark.parametrize(
    ("subject", "endpoint", "expected"),
    [
        ("alice", None, "bot"),
        ("alice", "bot", "bot"),
        ("alice", "other", 403),
        ("bob", None, "other"),
        ("stranger", None, 403),
    ],
)
def test_whom_a_token_stands_for(here: Here, subject: str, endpoint: str | None, expected: str | int) -> None:
    here.token("token", subject)
    for _ in range(2):
        found = here.ask("token", endpoint_agent=endpoint)
        assert (found.status if isinstance(found, Refused) else found.agent_id) == expected
    assert len(here.refused) == (2 if expected == 403 else 0)


def test_a_token_stands_for_its_owner_under_the_rules_of_now(here: Here) -> None:
    here.token("token")
    for tenant, roles in (("t", ["r"]), ("u", ["s"]), ("t", ["r"])):
        here.live.rulebook = rules(bot={"allow": ["*"], "tenant": tenant, "roles": roles})
        found = here.ask("token")
        assert isinstance(found, Principal)
        assert (found.tenant, found.roles) == (tenant, tuple(roles))
    here.live.rulebook = None
    found = here.ask("token")
    assert isinstance(found, Refused)
    assert found.status == 403


@pytest.mark.parametrize(
    ("unread", "local_sender", "credential", "status", "says_why"),
    [
        (False, True, None, 401, True),
        (False, False, None, 401, False),
        (True, True, None, 401, True),
        (True, True, "agk_x", 503, True),
        (True, False, "agk_x", 503, False),
        (False, True, "agk_x", 401, True),
    ],
)
def test_what_is_said_while_keys_may_be_lost(
    here: Here, unread: bool, local_sender: bool, credential: str | None, status: int, says_why: bool
) -> None:
    """This machine is told why; a key that cannot be checked is not said to be wrong, and is no guess."""
    here.access.locked, here.access.unread = "keys may be lost", unread
    for _ in range(50):
        found = here.ask(credential, peer="127.0.0.1" if local_sender else "10.0.0.9")
        assert isinstance(found, Refused)
        if found.status == 429:
            assert credential is not None
            assert not unread
            break
        assert found.status == status
        assert ("keys may be lost" in found.reason) is says_why
        assert (found.retry_after is not None) is (status == 503)
    if unread and credential is not None:
        found = here.ask(None, peer="127.0.0.1" if local_sender else "10.0.0.9", api_key=(credential,))
        assert isinstance(found, Refused)
        assert found.status == 503, "by the header for keys alone"
    here.access.locked = None
    found = here.ask(None, peer="10.0.0.9")
    assert isinstance(found, Refused)
    assert "log of the aggregator" not in found.reason


@pytest.mark.parametrize(("moment", "counts"), [(-0.1, False), (0.0, True), (59.9, True), (60.0, False)])
def test_an_authentication_by_token_counts_between_two_moments(here: Here, moment: float, counts: bool) -> None:
    """Before the first one the clock was set back; the token is verified again then, and after the last."""
    facts = here.token("token")
    here.tokens.verified["token"] = VerifiedToken(facts, NOW + 60, since=NOW)
    principal = here.ask("token")
    assert isinstance(principal, Principal)
    before = here.access.authentication(principal)
    here.now = NOW + moment
    assert here.access.repeated(before) is (principal if counts else None)


def test_issuers_are_for_those_who_accept_tokens(here: Here) -> None:
    """Without a web frontend no issuer is asked, whatever a new configuration has."""
    config = AuthConfig(issuers=(IssuerConfig(issuer=IDP, audience=("a",)),))
    alone = Access(Views(None, {}))
    alone.reconfigure(config)
    assert alone.tokens is None
    alone.accept(AuthConfig())
    assert alone.tokens is None
    alone.reconfigure(config)
    first = alone.tokens
    assert first is not None
    alone.reconfigure(config)
    assert alone.tokens is first, "what is the same stays"
    alone.reconfigure(AuthConfig(issuers=(IssuerConfig(issuer=IDP, audience=("b",)),)))
    assert alone.tokens not in (None, first)
    alone.reconfigure(AuthConfig())
    assert alone.tokens is None


# -- tokens whose issuer has to be asked


async def test_who_waits_for_an_issuer(here: Here) -> None:
    """So many tokens of one sender at once; those of others are asked about all the same, and places come back."""
    here.tokens.asking.clear()
    one, other = here.facts("new", peer="10.0.0.1"), here.facts("new", peer="10.0.0.2")
    assert isinstance(here.access.authenticate(one), Refused)
    verified = VerifiedToken(TokenFacts(IDP, "alice", expires=NOW + 60, text="new"), NOW + 60)
    here.tokens.asked["new"] = verified
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(here.access.admit(one)) for _ in range(access._WAITING_OF_ONE)]
        await asyncio.sleep(0)
        assert here.tokens.waiting == access._WAITING_OF_ONE
        refused = await here.access.admit(one)
        assert isinstance(refused, Refused)
        assert refused.status == 429
        waiting.append(tasks.create_task(here.access.admit(other)))
        await asyncio.sleep(0)
        assert here.tokens.waiting == access._WAITING_OF_ONE + 1
        here.tokens.asking.set()
    assert {found.agent_id for task in waiting if isinstance(found := task.result(), Principal)} == {"bot"}
    assert here.access._waiting == {}
    assert isinstance(await here.access.admit(one), Principal)


@pytest.mark.parametrize(
    ("checked", "status"),
    [
        (Unverified("away"), 503),
        (Rejection("It has expired."), 401),
        (Rejection("It is signed by somebody.", guessed=True), 401),
    ],
)
async def test_what_is_said_of_a_token_that_is_not_good(here: Here, checked: Any, status: int) -> None:
    """Whoever guesses is slowed; an old token, and one that cannot be checked, are no guesses."""
    here.tokens.asked["bad"] = checked
    facts = here.facts("bad", peer="10.0.0.1")
    found = [await here.access.admit(facts) for _ in range(40)]
    statuses = [one.status for one in found if isinstance(one, Refused)]
    assert statuses[0] == status
    assert (429 in statuses) is getattr(checked, "guessed", False)
    assert len(statuses) == len(here.refused) == 40


async def test_a_sender_that_guessed_waits_with_few(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid token of theirs still gets in; beyond so many checks a second they are told how long to wait."""
    here.tokens.asked["bad"] = Rejection("no", guessed=True)
    facts = here.facts("bad", peer="10.0.0.1")
    while not isinstance(found := await here.access.admit(facts), Refused) or found.status != 429:
        assert len(here.refused) < 100
    here.tokens.asking.clear()
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(here.access.admit(facts)) for _ in range(access._WAITING_OF_SLOWED)]
        await asyncio.sleep(0)
        assert here.tokens.waiting == access._WAITING_OF_SLOWED
        assert isinstance(await here.access.admit(facts), Refused)
        assert here.tokens.waiting == access._WAITING_OF_SLOWED
        here.tokens.asking.set()
    assert all(isinstance(task.result(), Refused) for task in waiting)
    monkeypatch.setattr(here.access, "_spare", SimpleNamespace(allows=lambda cost, now: False))
    slowed = here.ask("bad", peer="10.0.0.1")
    assert isinstance(slowed, Refused)
    assert (slowed.status, slowed.retry_after) == (429, int(LONGEST) + 1)
    unslowed = here.ask("bad", peer="10.0.0.2")
    assert isinstance(unslowed, Refused)
    assert unslowed.status == 401
    here.token("good")
    assert isinstance(here.ask("good", peer="10.0.0.1"), Principal)
