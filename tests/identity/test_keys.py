"""The key itself: its form, its checksum, its hash."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.identity import keys
from aggregator.identity.keys import NewKey, hashed, matches, new_key, parse_key, parse_policy_line, policy_line


def made(agent: str = "bot") -> NewKey:
    return new_key(agent, now=1.0)


def test_the_form_of_a_key() -> None:
    key = made()
    prefix, key_id, secret = key.text.split("_")
    assert (prefix, key_id) == ("agk", key.record.key_id)
    assert len(secret) == 49
    assert secret.isalnum()
    assert secret.isascii()
    parsed = parse_key(key.text)
    assert parsed is not None
    assert parsed.key_id == key_id
    assert matches(parsed, key.record.hash)


def test_two_keys_share_nothing() -> None:
    many = [made() for _ in range(200)]
    assert len({key.record.key_id for key in many}) == len({key.text.split("_")[2][:43] for key in many}) == 200
    assert len({key.record.hash for key in many}) == 200


def test_the_whole_range_of_secrets_fits() -> None:
    assert 62**keys._SECRET_LENGTH > 2**256 > 62 ** (keys._SECRET_LENGTH - 1)
    assert keys._base62(2**256 - 1, keys._SECRET_LENGTH) != keys._base62(2**256 - 2, keys._SECRET_LENGTH)


@settings(deadline=None)
@given(st.integers(0, 63), st.characters(codec="ascii", categories=["L", "N"]))
def test_a_typo_is_told(at: int, character: str) -> None:
    text = "agk_qsjv677h6g_ATcxe78bZKePW0ohi76erywpG8uSXn89NyQzHc2ECAP1BlDLp"
    assert parse_key(text) is not None
    typo = text[:at] + character + text[at + 1 :]
    assert typo == text or parse_key(typo) is None


@pytest.mark.parametrize("change", [str.upper, str.lower, lambda t: t + "\n", lambda t: " " + t, lambda t: t[:-1]])
def test_other_spellings_are_no_keys(change: "object") -> None:
    assert callable(change)
    assert parse_key(change("agk_qsjv677h6g_ATcxe78bZKePW0ohi76erywpG8uSXn89NyQzHc2ECAP1BlDLp")) is None


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_key_or_none(text: str) -> None:
    parse_key(text)


def test_a_hash_belongs_to_one_key_and_one_salt() -> None:
    one, other = made(), made()
    first, second = parse_key(one.text), parse_key(other.text)
    assert first is not None
    assert second is not None
    assert not matches(first, other.record.hash)
    assert hashed(first) != hashed(first)
    moved = keys.PresentedKey(second.key_id, first.secret)
    assert not matches(moved, one.record.hash)
    for broken in ("", "b2-", one.record.hash[:-1], one.record.hash.upper(), "b1" + one.record.hash[2:]):
        assert not matches(first, broken)


def test_the_comparison_takes_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bool] = []

    def compare(one: str, other: str) -> bool:
        compared.append(one == other)
        return one == other

    monkeypatch.setattr(keys, "compare_digest", compare)
    key = made()
    parsed = parse_key(key.text)
    assert parsed is not None
    assert matches(parsed, key.record.hash)
    assert not matches(parsed, made().record.hash)
    assert compared == [True, False]


def test_a_policy_line_goes_there_and_back() -> None:
    key = made("bot")
    line = policy_line(key.record)
    back = parse_policy_line(f" {line}\n", "bot")
    assert (back.key_id, back.agent_id, back.hash) == (key.record.key_id, "bot", key.record.hash)


@pytest.mark.parametrize(
    "line", ["", "x", ":", "qsjv677h6g", "qsjv677h6g:b2-00-00", "a:b2-" + "0" * 32 + "-" + "0" * 64]
)
def test_what_is_no_policy_line(line: str) -> None:
    with pytest.raises(ValueError, match="Expected KEYID:HASH"):
        parse_policy_line(line, "bot")


def test_a_key_in_a_policy_file_is_refused_and_not_repeated() -> None:
    text = made().text
    with pytest.raises(ValueError, match="This is a key, not a hash") as caught:
        parse_policy_line(text, "bot")
    assert text[15:] not in str(caught.value)


@pytest.mark.parametrize("agent", ["", "a b", "ä", "bоt", "../x", "a/b", "-a", "a" * 65, "a\n", "bot\u200b"])
def test_names_that_no_agent_has(agent: str) -> None:
    with pytest.raises(ValueError, match="name of an agent"):
        made(agent)


def test_reprs_keep_the_secret() -> None:
    key = made()
    shown = repr(key) + repr(parse_key(key.text)) + repr(key.record)
    assert key.text.split("_")[2][:43] not in shown
    assert key.record.hash not in shown
