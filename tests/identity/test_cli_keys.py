"""`aggregator keys`."""

import json
import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aggregator.cli import keys
from aggregator.cli.commands import app
from aggregator.domain.errors import OperatorError
from aggregator.identity.keyring import Keyring
from aggregator.identity.keys import parse_key, parse_policy_line
from aggregator.storage.records import KeyRecord
from tests import with_folders_of_windows


def made(url: str, capsys: pytest.CaptureFixture[str], agent: str = "bot", **options: str) -> str:
    assert keys.new(url, agent, **options) == 0  # type: ignore[arg-type]
    shown = capsys.readouterr()
    (text,) = shown.out.splitlines()
    assert text not in shown.err
    return text


def test_new_list_expire_revoke(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = made(url, capsys, label="Ada's\nlaptop", expires="90d")
    key_id = text.split("_")[1]
    assert keys.listed(url) == 0
    listed = capsys.readouterr().out
    row = re.split(r" {2,}", listed.splitlines()[1])
    assert row[:4] == [key_id, "bot", "-", "active"]
    assert row[-1] == "Ada's laptop"
    assert text.split("_")[2][:43] not in listed
    assert keys.expire(url, key_id, "now") == 0
    assert keys.listed(url, as_json=True) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown[shown.index("[") :])[0]["state"] == "expired"
    assert keys.expire(url, key_id, "never") == 0
    assert capsys.readouterr().out == f"{key_id} of bot, without expiry.\n"
    assert keys.revoke(url, key_id) == 0
    assert capsys.readouterr().out == f"{key_id} of bot is revoked.\n"
    keys.listed(url)
    assert "revoked" in capsys.readouterr().out


def test_a_hash_for_a_policy_file_touches_no_database(path: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys.new(url, "bot", print_hash=True) == 0
    text, line = capsys.readouterr().out.splitlines()
    assert not path.exists()
    ring = Keyring()
    ring.use_policy_keys([parse_policy_line(line, "bot")])
    assert isinstance(ring.verify(parse_key(text), 1.0), KeyRecord)
    with pytest.raises(OperatorError, match="cannot carry an end"):
        keys.new(url, "bot", expires="1d", print_hash=True)
    with pytest.raises(OperatorError, match="cannot carry a role"):
        keys.new(url, "bot", console="viewer", print_hash=True)


def warned(url: str, capsys: pytest.CaptureFixture[str], agent: str, folder: Path | None, **options: object) -> str:
    assert keys.new(url, agent, policies=folder, **options) == 0  # type: ignore[arg-type]
    return "".join(line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: "))


def test_an_agent_that_no_policy_names(tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "policies"
    assert warned(url, capsys, "alise", folder) == ""  # without files all is open
    assert warned(url, capsys, "alise", None) == ""
    folder.mkdir()
    file = folder / "a.yaml"
    file.write_text("agents:\n  alice: {allow: ['*']}\n  Alices: {allow: ['*']}\n  other: {allow: ['*']}\n")
    assert warned(url, capsys, "alice", folder) == ""
    end = f"Add it under `agents:` in a file of {folder}, or revoke this key."
    start = "warning: No policy file names the agent"
    assert warned(url, capsys, "alise", folder) == (
        f"{start} alise, so it may do nothing. Did you mean alice or Alices? {end}"
    )
    assert warned(url, capsys, "zzzz", folder) == f"{start} zzzz, so it may do nothing. {end}"
    assert warned(url, capsys, "ALICE", folder).startswith(f"{start} ALICE, so it may do nothing. Did you mean alice")
    assert warned(url, capsys, "alise", folder, console="viewer") == ""
    assert warned(url, capsys, "alise", folder, print_hash=True) == ""
    file.write_text("agents: [")
    assert warned(url, capsys, "alise", folder) == ""  # which agents there are is not known


def test_the_command_looks_at_the_policies_of_its_configuration(tmp_path: Path) -> None:
    config = tmp_path / "aggregator.json"
    config.write_text(json.dumps({"mcpServers": {}, "storage": f"sqlite:///{tmp_path}/a.db"}))
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yaml").write_text("agents:\n  alice: {allow: ['*']}\n")
    made = CliRunner().invoke(app, ["keys", "new", "alise", "--config", str(config)])
    assert made.exit_code == 0
    assert made.stdout.startswith("agk_")
    assert "warning: No policy file names the agent alise, so it may do nothing. Did you mean alice?" in made.stderr


def test_ids_that_nobody_has(url: str) -> None:
    with pytest.raises(OperatorError, match="no key 'x'"):
        keys.revoke(url, "x")
    with pytest.raises(OperatorError, match="no key 'x'"):
        keys.expire(url, "x", "1d")


@pytest.mark.parametrize("when", ["soon", "5", "-1d", "1w", "2020-01-01", "now", "9999-12-31", "0001-01-01"])
def test_times_that_a_new_key_cannot_end_at(url: str, when: str) -> None:
    with pytest.raises(OperatorError):
        keys.new(url, "bot", expires=when)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90d", 90 * 86400.0 + 10),
        ("12h", 12 * 3600.0 + 10),
        ("30m", 1810.0),
        ("now", 10.0),
        ("never", None),
        (None, None),
        ("1970-01-02", 86400.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
    ],
)
def test_times(text: str | None, seconds: float | None) -> None:
    assert keys.parse_when(text, 10.0) == seconds


def test_the_default_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, folder in with_folders_of_windows({"XDG_DATA_HOME": str(tmp_path)}).items():
        monkeypatch.setenv(name, folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    before = time.time()
    assert keys.new(None, "bot") == 0
    capsys.readouterr()
    keys.listed(None, as_json=True)
    (key,) = json.loads(capsys.readouterr().out)
    assert key["created"] >= before
    assert list(tmp_path.rglob("aggregator.db"))
