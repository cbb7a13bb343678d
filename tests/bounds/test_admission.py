"""Places of admission, each moment by itself: who counts for how much, and what is left after a refusal."""

import random
from typing import Final

import pytest

from aggregator.domain.principal import Principal, TokenFacts
from aggregator.gateway.admission import TOO_MANY, TOO_MANY_OF_ONE, Admission, Kind, Slot, TooMany

KEYED: Final = Principal("ann", key_id="k1")
WITH_TOKEN: Final = Principal("bob", token=TokenFacts("https://issuer", "bob"))
UNKNOWN: Final = Principal("local")


def admission(most: int = 4, share: float = 0.5) -> Admission:
    return Admission({"sessions": most, "streams": most, "pending": most}, share)


def refusal(of: Admission, kind: Kind, principal: Principal) -> int | None:
    """Take a place; return the code of the refusal."""
    try:
        of.acquire(kind, principal)
    except TooMany as refused:
        return refused.code
    return None


@pytest.mark.parametrize(("principal", "has"), [(KEYED, 2), (WITH_TOKEN, 2), (UNKNOWN, 4)])
def test_an_agent_has_its_share_and_who_is_not_known_has_all(principal: Principal, has: int) -> None:
    """One agent's places are no other agent's, and those of one kind are none of another's."""
    for at_once in (False, True):
        of = admission()
        for number in range(6):
            if at_once:
                assert (of.acquire_if_free("pending", principal) is not None) is (number < has)
            else:
                expected = None if number < has else TOO_MANY if has == 4 else TOO_MANY_OF_ONE
                assert refusal(of, "pending", principal) == expected
        assert of.in_use["pending"] == has
        assert sum(of.refused.values()) == (0 if at_once else 6 - has)
        assert refusal(of, "streams", principal) is None
        assert refusal(of, "pending", Principal("other", key_id="k2")) == (TOO_MANY if has == 4 else None)


@pytest.mark.parametrize("principal", [KEYED, WITH_TOKEN, UNKNOWN])
def test_every_agent_has_one_place_of_few(principal: Principal) -> None:
    of = admission(1)
    assert refusal(of, "sessions", principal) is None
    assert refusal(of, "sessions", principal) == TOO_MANY


@pytest.mark.parametrize("principal", [KEYED, WITH_TOKEN, UNKNOWN])
def test_a_place_is_exchanged_or_kept(principal: Principal) -> None:
    """If there is none of the other kind, the first one stays taken, and is given back once."""
    of = admission()
    others = [of.acquire("streams", Principal("other")) for _ in range(3)]
    slot = of.acquire("pending", principal)
    slot.change("streams")
    assert (of.in_use["pending"], of.in_use["streams"]) == (0, 4)
    kept = of.acquire("pending", principal)
    with pytest.raises(TooMany):
        kept.change("streams")
    assert (of.in_use["pending"], of.in_use["streams"]) == (1, 4)
    for one in (kept, slot, *others) * 2:
        one.release()
    assert set(of.in_use.values()) == {0}
    assert all(places.of_agent == {} for places in of._places.values())


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_count_alike(seed: int) -> None:
    """`acquire_if_free` takes a place exactly if `acquire` would."""
    drawn, quick, usual = random.Random(seed), admission(5), admission(5)  # noqa: S311 - a sequence that can be repeated
    taken: list[tuple[Slot, Slot]] = []
    for _ in range(200):
        principal = drawn.choice((KEYED, WITH_TOKEN, UNKNOWN, Principal("ann", key_id="k2")))
        one = quick.acquire_if_free("pending", principal)
        try:
            other = usual.acquire("pending", principal)
        except TooMany:
            assert one is None
        else:
            assert one is not None
            taken.append((one, other))
        if taken and drawn.random() < 0.5:
            for slot in taken.pop(drawn.randrange(len(taken))):
                slot.release()
        assert quick.in_use == usual.in_use
