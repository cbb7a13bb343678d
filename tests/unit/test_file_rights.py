"""Access control lists of Windows, in the form in which the system writes them."""

import json
from pathlib import Path
from typing import Final

import pytest

from aggregator.accounts.doctor.checks import of_accounts
from aggregator.accounts.doctor.gather import read_accounts
from aggregator.config.load import load
from aggregator.doctor.checks.machine import of_modes
from aggregator.doctor.checks.storage import of_storage
from aggregator.doctor.gather.machine import read_modes
from aggregator.doctor.gather.storage import read_storage
from aggregator.system import file_rights
from aggregator.system.file_rights import read_access_list, rights_of_others

# In a home folder; below C:\ProgramData; in a folder that was made in C:\.
OF_HOME: Final = "D:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;FA;;;S-1-5-21-1-2-3-1001)"
SHARED: Final = "D:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;0x1200a9;;;BU)(A;OICIIOID;GA;;;CO)"
FROM_ROOT: Final = "D:AI(A;ID;FA;;;BA)(A;OICIID;FA;;;SY)(A;OICIID;0x1200a9;;;BU)(A;ID;0x1301bf;;;AU)"


@pytest.mark.parametrize(
    ("text", "readers", "writers"),
    [
        (OF_HOME, [], []),
        (SHARED, ["Users"], []),
        (FROM_ROOT, ["Authenticated Users", "Users"], ["Authenticated Users"]),
        ("D:(A;;FR;;;WD)(A;;FW;;;S-1-1-0)", ["Everyone"], ["Everyone"]),
        ("D:(A;OICIIO;FA;;;WD)(D;;FA;;;BU)", [], []),
        ("D:(A;;GR;;;S-1-5-32-546)(A;;CCLC;;;IU)(A;;0x100000;;;BU)", ["Guests", "Interactive"], ["Interactive"]),
        ("D:NO_ACCESS_CONTROL", ["Everyone"], ["Everyone"]),
        ("D:P", [], []),
    ],
)
def test_groups_of_other_people_are_told_with_their_rights(text: str, readers: list[str], writers: list[str]) -> None:
    found = read_access_list(text)
    assert [name for name, _ in found.readers] == readers
    assert [name for name, _ in found.writers] == writers


def test_elsewhere_there_is_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("ctypes.WinDLL", raising=False)
    assert rights_of_others(tmp_path) == file_rights.CLOSED


def test_the_doctor_tells_who_may_read_secrets_and_change_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rights are told once for a folder of policies, whose files have them too."""
    monkeypatch.setattr(file_rights, "_access_list", lambda path: FROM_ROOT)
    monkeypatch.setenv("USERDOMAIN", "BOX")
    monkeypatch.setenv("USERNAME", "Ada L")
    config, policies = tmp_path / "aggregator.json", tmp_path / "policies"
    config.write_text('{"mcpServers": {"box": {"command": "x", "env": {"BOX_TOKEN": "sesame-9f8e7d"}}}}')
    policies.mkdir()
    (policies / "a.yaml").write_text("agents: {}\n")
    config.chmod(0o600)
    policies.chmod(0o700)
    (policies / "a.yaml").chmod(0o600)
    found = {one.code: one for one in of_modes(*read_modes(load(config, {})))}
    assert found.keys() == {"config_open", "policy_open"}
    read, changed = found["config_open"], found["policy_open"]
    assert read.message == f"`Authenticated Users` and `Users` can read {config}, which holds secrets."
    assert str(read.fix).endswith(
        ' /inheritance:r /grant:r "BOX\\Ada L:F" "*S-1-5-18:F"`; `aggregator secrets` keeps them out of the file.'
    )
    assert str(changed.where) == str(policies)
    assert changed.message.startswith("`Authenticated Users` can change ")
    assert "/inheritance:d`, then `icacls " in str(changed.fix)
    assert str(changed.fix).endswith(' /remove:g "*S-1-5-11"`.')
    assert not read.safe
    assert not changed.safe
    monkeypatch.setattr(file_rights, "_access_list", lambda path: OF_HOME)
    assert not list(of_modes(*read_modes(load(config, {}))))


@pytest.mark.parametrize(("access", "mode"), [(FROM_ROOT, 0o600), (None, 0o644), (None, 0o640)])
def test_the_doctor_tells_who_may_read_the_files_of_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, access: str | None, mode: int
) -> None:
    """The file of a reference is a secret; an `envFile` is one if a name in it tells."""
    monkeypatch.setattr(file_rights, "_access_list", lambda path: access)
    texts = {
        "token": "sesame-9f8e7d\n",
        ".env": "API_TOKEN=open-5f5f5f\nLOG_LEVEL=information\n",
        "plain.env": "LOG_LEVEL=information\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    servers = {
        "box": {"url": "https://box.example/mcp", "headers": {"Authorization": "Bearer ${file:token}"}},
        "tin": {"command": "x", "envFile": ".env"},
        "can": {"command": "x", "envFile": "plain.env"},
        "jar": {"command": "x", "env": {"JAR_TOKEN": "${file:gone}"}},
    }
    config = tmp_path / "aggregator.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    config.chmod(0o600)
    found = list(of_modes(*read_modes(load(config, {}))))
    assert {(one.code, one.where, one.safe) for one in found} == {
        ("value_file_open", str(tmp_path / name), False) for name in ("token", ".env")
    }
    who, command = ("Other users", "chmod 600 ") if access is None else ("`Authenticated Users` and `Users`", "icacls ")
    assert all(one.message.startswith(f"{who} can read ") and f"`{command}" in str(one.fix) for one in found)
    monkeypatch.setattr(file_rights, "_access_list", lambda path: OF_HOME if access else None)
    for name in texts:
        (tmp_path / name).chmod(0o600)
    assert not list(of_modes(*read_modes(load(config, {}))))


async def test_the_doctor_tells_who_may_read_the_key_of_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_rights, "_access_list", lambda path: SHARED)
    key = tmp_path / "a.db.vault-key"
    key.write_text("k")
    key.chmod(0o600)
    config = tmp_path / "aggregator.json"
    config.write_text('{"mcpServers": {}}')
    facts = await read_accounts(load(config, {}), f"sqlite:///{tmp_path / 'a.db'}", asks=False)
    (found,) = of_accounts(facts)
    assert (found.code, found.message) == ("vault_key_open", f"`Users` can read {key}, the key of the tokens.")


async def test_the_doctor_tells_who_may_read_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rights, "_access_list", lambda path: SHARED)
    read = await read_storage(f"sqlite:///{tmp_path / 'a.db'}", {})
    found = {one.code: one for one in of_storage(read.facts, audited=True)}
    assert found["database_open"].message == f"`Users` can read the database {tmp_path / 'a.db'}."
