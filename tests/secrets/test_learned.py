"""Values that the redactor learns while the program runs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.servers.expand import Expander, ExpandError
from aggregator.redaction.redactor import GENERATIONS, REDACTED, Redactor
from aggregator.secret_sources.reference import SecretReference


def canary(number: int) -> str:
    return f"c4nary-{number:06}-in-the-mine"


def test_what_was_learned_is_hidden_in_every_form_and_stays_hidden() -> None:
    """Proves: D9. Beside what the configuration has, also once that is another one."""
    redactor = Redactor(["from-the-config-1"])
    redactor.learn("box", [canary(1)])
    redactor.learn("box", [canary(2)])
    redactor.add(["from-the-config-2"])
    redactor.update(Redactor(["from-the-config-3"]))
    for secret in (canary(1), canary(2), *(f"from-the-config-{number}" for number in (1, 2, 3))):
        assert redactor(f"it is {secret}.") == f"it is {REDACTED}."
        assert redactor.known({"x": [secret]}) == {"x": [REDACTED]}


def test_a_source_with_a_new_value_each_time_is_bounded() -> None:
    """And takes nothing from others: what they gave last is what their servers have now."""
    redactor = Redactor()
    redactor.learn("quiet", [canary(0)])
    for number in range(1, 2 * GENERATIONS + 1):
        redactor.learn("busy", [canary(number)])
    hidden = [redactor(canary(number)) == REDACTED for number in range(2 * GENERATIONS + 1)]
    assert hidden == [True] + [False] * GENERATIONS + [True] * GENERATIONS


def test_a_value_that_comes_again_is_the_latest() -> None:
    redactor = Redactor()
    redactor.learn("box", [canary(0)])
    for number in range(1, GENERATIONS):
        redactor.learn("box", [canary(number)])
    redactor.learn("box", [canary(0)])
    redactor.learn("box", [canary(GENERATIONS)])
    assert redactor(canary(0)) == REDACTED
    assert redactor(canary(1)) == canary(1)


def test_threads_learn_side_by_side() -> None:
    """Nothing that one of them learned is lost."""
    redactor = Redactor()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: redactor.learn(f"box{number}", [canary(number)]), range(40)))
        list(pool.map(lambda number: redactor.add([canary(number)]), range(40, 60)))
    assert all(redactor(canary(number)) == REDACTED for number in range(60))


@given(st.text(max_size=60), st.text(max_size=20))
def test_no_value_is_looked_through_for_references(value: str, beside: str) -> None:
    """What a variable holds is text, also where it looks like a reference."""
    beside = beside.replace("$", "")
    expander = Expander({"X": value + "${keyring:x}${command:id}"}, Path("/"), commands=("id",))
    assert (
        "".join(map(expander.shown, expander.parts(f"{beside}${{X}}")))
        == f"{beside}{value}${{keyring:x}}${{command:id}}"
    )
    assert not any(isinstance(part, SecretReference) for part in expander.parts("${X}"))


@given(st.sampled_from(["keyring", "command", "file"]), st.text(alphabet="ab $/{}:'\"\\-\0\n", max_size=20))
def test_any_reference_is_understood_or_refused(kind: str, text: str) -> None:
    """With one sentence and a fix; none is asked for its value."""
    expander = Expander({}, Path("/nonexistent"), commands=("a",))
    refused: list[ExpandError] = []
    parts: list[str | SecretReference] = []
    try:
        parts = expander.parts(f"x${{{kind}:{text}}}y")
    except ExpandError as error:
        refused.append(error)
    found = [part for part in parts if isinstance(part, SecretReference)]
    for one in found:
        assert one.kind == kind
        assert one.words[:1] == (("a",) if kind == "command" else ())
    assert bool(found) != bool(refused)
    assert all(error.message.endswith(".") and error.fix for error in refused)
