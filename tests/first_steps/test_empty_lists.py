"""Lists without a row say so in a sentence, and what makes one; programs read `--json`."""

from pathlib import Path

import pytest

from aggregator.cli.commands import app
from aggregator.config.errors import ConfigMissing
from tests.first_steps.conftest import Run

CONFIG = '{"mcpServers": {"time": {"url": "http://127.0.0.1:1/mcp"}}}'


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("keys", "list"), "The database has no key. `aggregator keys new AGENT` makes one."),
        (("approvals", "list"), "No call waits for an approval."),
        (("approvals", "list", "--status", "all"), "The database has no approval."),
        (("approvals", "list", "--status", "denied"), "No approval is denied."),
        (("secrets", "list"), "No secret is stored or referred to. `aggregator secrets set NAME` stores one."),
        (("connections", "list"), "No account is connected. `aggregator connect SERVER` connects one."),
        (("trust", "--list"), "No file is trusted. `aggregator trust` trusts the aggregator.json of this folder."),
    ],
)
def test_an_empty_list_is_a_sentence(
    config: Path, words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG)
    app(list(words), standalone_mode=False)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"\n{sentence}" in f"\n{err}"


@pytest.mark.parametrize("words", [("tools",), ("check",), ("remove", "x"), ("pins", "status")])
def test_without_a_configuration_the_first_commands_are_named(home: Path, run: Run, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigMissing) as caught:
        run(*words)
    assert "Run `aggregator init`, add a server with `aggregator add NAME -- COMMAND ARGS...`" in str(caught.value)
