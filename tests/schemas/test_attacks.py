"""A hostile schema or value costs itself only: no crash, no stall, and a plain word of what came of it."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.schemas.attacks import ATTACKS

ROOT = Path(__file__).resolve().parents[2]
# Several in one process, for speed. The time is for a machine that is very busy; a stall takes for ever.
GROUP = 16
KILLED_AFTER = 120

DEEP = ("unusable", "it is nested more than 100 levels deep")
CIRCLE = ("unusable", "it has a reference that leads back to itself without end")
LARGE = ("unusable", "it has more than 5,000 subschemas")
NAMES = list(ATTACKS)

# What must come of each: the keyword of the first fault, or why the schema is refused; "" where the value fits.
OUTCOMES: dict[str, str | tuple[str, str]] = {
    "deep value": "size",
    "deep value, deep schema": "size",
    "deep value within the limit": "",
    "deep schema": DEEP,
    "deep in place": "type",
    "long chain": "schema",
    "long chain down": "",
    "longer chain": ("unusable", "it holds more than 100,000 values"),
    "loop": CIRCLE,
    "loop of two": CIRCLE,
    "loop in anyOf": CIRCLE,
    "loop in not": CIRCLE,
    "dynamic loop": CIRCLE,
    "recursive loop": CIRCLE,
    "dynamic recursion": "",
    "dynamic choice": "time",
    "doubled anyOf": "schema",
    "doubled allOf": "",
    "doubled oneOf": "schema",
    "doubled in a circle": "schema",
    "doubled in a wider circle": "time",
    "doubled per level": "schema",
    "every way": "schema",
    "every way, shallow": "anyOf",
    "looking back": "",
    "unique million": "size",
    "unique objects": "",
    "last is a copy": "uniqueItems",
    "all wrong": "type",
    "all missing": "required",
    "giant enum": "enum",
    "giant enum each": "enum",
    "giant schema": ("unusable", "it holds more than 100,000 values"),
    "many subschemas": LARGE,
    "many alternatives": "required",
    "nested contains": "contains",
    "great numbers": "size",
    "small divisor": "",
    "text without an end": "type",
    "names in other spellings": "required",
    "options in other spellings": "enum",
    "nested quantifiers": "pattern",
    "alternatives of one": "pattern",
    "counted": "time",
    "counted twice": "time",
    "counted, many texts": "pattern",
    "counted beyond": "",
    "look-ahead": "",
    "back-reference": "",
    "no expression": "",
    "no expression for names": ("unusable", "cannot be used"),
    "heavy expressions": "",
    "an expression for a long name": "time",
    "expressions for names": "time",
}


@cache
def outcomes(group: int) -> dict[str, list[str]]:
    names = NAMES[group * GROUP : (group + 1) * GROUP]
    done = subprocess.run(
        [sys.executable, "-m", "tests.schemas.attacks", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=KILLED_AFTER,
        check=False,
    )
    assert done.returncode == 0, f"died after {done.stdout[-200:]}: {done.stderr[-2000:]}"
    return dict(json.loads(line) for line in done.stdout.splitlines())


def test_each_attack_has_its_outcome() -> None:
    assert list(OUTCOMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_is_survived(name: str) -> None:
    found, wanted = outcomes(NAMES.index(name) // GROUP)[name], OUTCOMES[name]
    if isinstance(wanted, tuple):
        assert found[0] == wanted[0]
        assert wanted[1] in found[1]
    else:
        assert found[:1] == ([wanted] if wanted else [])
