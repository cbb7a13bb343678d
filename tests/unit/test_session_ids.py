"""The ids of sessions: what they say, and that nobody else can make one."""

import secrets
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.abilities import HostCapabilities, abilities_of, declared
from aggregator.domain.principal import LOCAL, Principal
from aggregator.domain.versions import LEGACY_VERSIONS
from aggregator.frontends.web.sessions import session_ids
from aggregator.frontends.web.sessions.session_ids import LONGEST, SessionIds
from aggregator.gateway.host import Host
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.shared_key import SharedKey

SECRET = "s" * 32
ADA = Principal("ada", key_id="k1")


def ids_of(secret: str = SECRET, lifetime: float = 60.0, clock: GroupClock | None = None) -> SessionIds:
    key = SharedKey()
    key.use(secret)
    return SessionIds(key, clock or GroupClock(), lifetime, "0123456789abcdef")


def host_of(principal: Principal = ADA, version: str = "2025-11-25", **info: Any) -> Host:
    host = Host("http", None, principal, version=version)
    host.set_client_info(info)
    return host


@given(
    version=st.sampled_from(LEGACY_VERSIONS),
    able=st.tuples(*[st.booleans()] * len(HostCapabilities._fields)),
    name=st.text(),
    client_version=st.text(),
)
def test_a_host_is_the_same_at_another_replica(
    version: str, able: tuple[bool, ...], name: str, client_version: str
) -> None:
    host = host_of(version=version, name=name)
    host.set_client_info({"name": name, "version": client_version})
    host.capabilities = declared(HostCapabilities(*able), alone=True)
    session_id, made = ids_of().issue(host)
    assert len(session_id) < LONGEST
    assert session_id.isascii()
    assert session_id.isprintable()
    read = ids_of().read(session_id)
    assert read == made
    again = read.host(None, ADA)
    assert (again.version, again.style, again.initialized) == (version, host.style, True)
    assert abilities_of(version, again.capabilities) == abilities_of(version, host.capabilities)
    assert name.encode("utf-8", "replace").decode().startswith(again.client_info["name"])


def test_huge_and_odd_claims_of_a_host_make_no_huge_id() -> None:
    for info in ({"name": "\x01" * 10**6}, {"name": "知" * 10**5, "version": "\ud800" * 10**5}, {"name": 7}, {}):
        host = host_of()
        host.set_client_info(info)
        host.capabilities = {"elicitation": {str(number): {} for number in range(10_000)}, "sampling": {}}
        session_id, _ = ids_of().issue(host)
        assert len(session_id) < LONGEST
        assert ids_of().read(session_id) is not None


def test_the_spelling_of_names_is_kept_of_a_host_whose_name_was_cut() -> None:
    host = host_of(name="x" * 100 + " cursor")
    assert host.style == "compatible"
    read = ids_of().read(ids_of().issue(host)[0])
    assert read is not None
    assert read.host(None, ADA).style == "compatible"
    assert read.host("canonical", ADA).style == "canonical"


def test_an_id_of_another_group_or_of_before_is_not_known() -> None:
    clock = GroupClock()
    session_id, _ = ids_of().issue(host_of())
    assert ids_of("t" * 32).read(session_id) is None
    assert ids_of(clock=clock).read(session_id) is not None
    now = time.monotonic()
    clock.measure(now, clock.now() + 61, now)
    assert ids_of(clock=clock).read(session_id) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_GENERATION", 99),
        ("_DIALECTS", (*session_ids._DIALECTS, "later")),
        ("_DIALECTS", (*session_ids._DIALECTS, "", "x")),
    ],
)
def test_an_id_that_a_later_version_made_is_not_known(name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """During a rolling upgrade: the host opens a session anew, and is not taken for another one."""
    host = host_of()
    with monkeypatch.context() as later:
        later.setattr(session_ids, name, value)
        if name == "_DIALECTS":
            host.dialect = value[-1]
        session_id, _ = ids_of().issue(host)
        assert ids_of().read(session_id) is not None
    assert ids_of().read(session_id) is None


def test_an_id_of_a_revision_without_sessions_is_not_known() -> None:
    assert ids_of().read(ids_of().issue(host_of(version="2099-01-01"))[0]) is None


def test_an_id_is_good_for_its_agent_and_key() -> None:
    read = ids_of().read(ids_of().issue(host_of())[0])
    assert read is not None
    assert read.is_of(Principal("ada", "tenant", ("role",), "k1"))
    for other in (Principal("ada", key_id="k2"), Principal("bob", key_id="k1"), Principal("ada"), LOCAL):
        assert not read.is_of(other)


def test_no_id_can_be_changed_cut_or_put_together() -> None:
    """Proves: F1"""
    ids = ids_of()
    one, two = ids.issue(host_of())[0], ids.issue(host_of(Principal("bob", key_id="k2")))[0]
    for place in range(len(one)):
        for letter in "Ab-_.":
            changed = one[:place] + letter + one[place + 1 :]
            assert changed == one or ids.read(changed) is None, place
        assert ids.read(one[:place]) is None
    first, second = one.split("."), two.split(".")
    for mask in range(1, 7):
        mixed = ".".join(second[at] if mask >> at & 1 else first[at] for at in range(3))
        assert ids.read(mixed) is None
    assert ids.read(f"{one}=") is None
    assert ids.read(f"{one}\n") is None


@pytest.mark.parametrize("odd", ["", ".", "..", "...", "a.b.c", "é.é.é", "A" * 10**6, "." * 10**5, "\x00.\x00.\x00"])
def test_what_is_no_id_is_not_known(odd: str) -> None:
    assert ids_of().read(odd) is None


def test_many_guesses_find_nothing() -> None:
    ids = ids_of()
    stated = ids.issue(host_of())[0].rpartition(".")[0]
    assert not any(ids.read(f"{stated}.{secrets.token_urlsafe(32)}") for _ in range(20_000))
