"""What hosts read of a held change names its kind, whatever class the change has."""

import pytest

from aggregator.config.server_parts import ChangeClass
from aggregator.pins.decide.values import CHANGE_CLASSES, ItemChange, PinnedItem
from aggregator.pins.gateway.judge import why_for_hosts

# Classes that no words are needed for: a cosmetic change is never held, `other` is told as a change.
WITHOUT_WORDS = {"cosmetic", "other"}
PINNED = PinnedItem("tool", "order", "digest", "1", "{}")


def change(*classes: ChangeClass) -> ItemChange:
    return ItemChange("tool", "order", frozenset(classes), PINNED, PINNED, None, frozenset(), "its words")


@pytest.mark.parametrize("one", [one for one in CHANGE_CLASSES if one not in WITHOUT_WORDS])
def test_every_class_of_a_change_has_words(one: ChangeClass) -> None:
    assert why_for_hosts(change(one)) not in {"it changed", "its words"}


def test_a_change_of_another_class_is_told_as_a_change() -> None:
    assert why_for_hosts(change("other")) == "it changed"


def test_two_classes_are_both_named() -> None:
    said = why_for_hosts(change("description", "steering"))
    assert said == "its description changed and it asks for values that were free before"


def test_of_several_classes_only_the_last_has_an_and() -> None:
    said = why_for_hosts(change("renamed", "description", "safer_annotations", "other_annotations"))
    assert said == "it has another name, its description changed and its annotations changed"
