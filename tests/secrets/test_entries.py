"""References in entries and settings: where they may stand, what is checked at once, and what is shown of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.config.difference import difference
from aggregator.config.load import Loaded, load
from aggregator.config.server_config import ServerConfig
from aggregator.secret_sources.reference import DeferredText
from tests.peers.file_keyring import keep

Json = dict[str, Any]
CANARY: Final = "c4nary-in-the-mine-88"


def loaded(folder: Path, entry: Json, environ: dict[str, str] | None = None, **settings: Any) -> Loaded:
    file = folder / "aggregator.json"
    file.write_text(json.dumps({"mcpServers": {"box": entry}, **settings}))
    return load(file, environ or {})


def server(found: Loaded) -> ServerConfig:
    (only,) = found.config.servers
    return only


def late(found: Loaded) -> dict[tuple[str | int, ...], list[str]]:
    """The parts of each text that is completed later, as they are written."""
    return {
        text.where: [part if isinstance(part, str) else part.written for part in text.parts]
        for text in server(found).references
    }


def test_a_reference_may_stand_in_each_place_for_secrets(tmp_path: Path) -> None:
    """It stays as it is written, in whichever key of another host; nothing is asked for it."""
    entry = {
        "serverUrl": "https://example.com/mcp?key=${keyring:key}",
        "headers": {"Authorization": "Bearer ${keyring:token}", "X-Plain": "1"},
        "proxy": "http://me:${keyring:proxy}@example.com:3128",
        "launch": {"command": "x", "args": ["--token", "${keyring:arg}"], "env": {"A": "${keyring:env}"}},
    }
    found = loaded(tmp_path, entry)
    assert not found.problems
    only = server(found)
    assert only.url == entry["serverUrl"]
    assert only.headers == entry["headers"]
    assert late(found) == {
        ("url",): ["https://example.com/mcp?key=", "${keyring:key}"],
        ("headers", "Authorization"): ["Bearer ", "${keyring:token}"],
        ("proxy",): ["http://me:", "${keyring:proxy}", "@example.com:3128"],
        ("launch", "args", 1): ["${keyring:arg}"],
        ("launch", "env", "A"): ["${keyring:env}"],
    }
    assert not any("keyring" in secret or secret == "Bearer" for secret in found.secrets)


def test_a_whole_address_may_be_a_secret(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"url": "${keyring:address}"})
    assert not found.problems
    assert server(found).type == "auto"


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("${NONE:-${keyring:y}}", ["${keyring:y}"]),
        ("${SET:-${keyring:y}}", None),
        ("${NONE:-${ALSO:-a${keyring:y}b}}", ["a", "${keyring:y}", "b"]),
        ("${keyring:${SET}/token}", ["${keyring:${SET}/token}"]),
        ("${SET}-${keyring:y}-${keyring:y}", [CANARY, "-", "${keyring:y}", "-", "${keyring:y}"]),
        ("${$}{keyring:y}", None),
        ("${command:teller 'a b' ${SET}}", ["${command:teller 'a b' ${SET}}"]),
        ("${command:teller ${$}HOME}", ["${command:teller ${$}HOME}"]),
    ],
)
def test_nested_references(tmp_path: Path, written: str, parts: list[str] | None) -> None:
    settings = {"secrets": {"commands": ["teller"]}}
    entry = {"command": "x", "env": {"A": written}}
    found = loaded(tmp_path, entry, {"SET": CANARY}, **settings)
    assert not found.problems
    assert late(found) == ({("env", "A"): parts} if parts is not None else {})
    assert CANARY not in repr(server(found))
    assert CANARY not in repr(server(found).references)


def test_words_of_a_command_come_from_the_file_alone(tmp_path: Path) -> None:
    """A variable is one word, or part of one, whatever is in it."""
    environ = {"EVIL": "x; rm -rf / $(id) 'two words"}
    entry = {"command": "x", "env": {"A": "${command:teller --for=${EVIL} last}"}}
    found = loaded(tmp_path, entry, environ, secrets={"commands": ["teller"]})
    (text,) = server(found).references
    assert [one.words for one in text.references] == [("teller", f"--for={environ['EVIL']}", "last")]


@pytest.mark.parametrize(
    ("entry", "place", "said"),
    [
        ({"command": "${keyring:x}"}, "command", "cannot stand in this field"),
        ({"command": "x", "cwd": "${keyring:x}"}, "cwd", "cannot stand in this field"),
        ({"command": "x", "description": "${keyring:x}"}, "description", "cannot stand in this field"),
        ({"command": "x", "envFile": "${keyring:x}"}, "envFile", "cannot stand in this field"),
        ({"command": "x", "timeout": "${keyring:x}"}, "timeout", "cannot stand in this field"),
        ({"url": "http://a", "launch": {"command": "${keyring:x}"}}, "launch.command", "cannot stand in this field"),
        ({"command": "x", "env": {"A": "${keyring:}"}}, "env.A", "names no secret. It is empty"),
        ({"command": "x", "env": {"A": "${keyring: x}"}}, "env.A", "names no secret"),
        ({"command": "x", "env": {"A": "${keyring:a\nb}"}}, "env.A", "names no secret"),
        ({"command": "x", "env": {"A": "${keyring:${keyring:x}}"}}, "env.A", "stands where a name has to"),
        ({"command": "x", "env": {"A": "${file:${keyring:x}}"}}, "env.A", "stands where a name has to"),
        ({"command": "x", "env": {"A": "${command:teller ${keyring:x}}"}}, "env.A", "stands where a name has to"),
        ({"command": "x", "env": {"A": "${command:}"}}, "env.A", "names no program"),
        ({"command": "x", "env": {"A": "${command:teller 'x}"}}, "env.A", "not a command line"),
        ({"command": "x", "env": {"A": "${command:other}"}}, "env.A", "not allowed to give secrets"),
        ({"command": "x", "env": {"A": "${command:/bin/teller}"}}, "env.A", "not allowed to give secrets"),
        ({"command": "x", "env": {"A": "${command:./teller}"}}, "env.A", "not allowed to give secrets"),
        ({"command": "x", "env": {"A": "${command:pick.a.file}"}}, "env.A", "not allowed to give secrets"),
    ],
)
def test_what_is_refused_when_the_file_is_read(tmp_path: Path, entry: Json, place: str, said: str) -> None:
    """The server is switched off, with one problem that names the place and the fix."""
    found = loaded(tmp_path, entry, secrets={"commands": ["teller"]})
    (problem,) = found.problems
    assert problem.where == f"mcpServers.box.{place}"
    assert said in problem.message
    assert problem.fix
    assert not server(found).enabled


def test_no_program_is_allowed_unless_the_file_says_so(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"command": "x", "env": {"A": "${command:cat token}"}})
    (problem,) = found.problems
    assert 'Add "cat" to `secrets.commands`' in problem.fix


def test_a_key_among_the_words_of_a_command_is_hidden(tmp_path: Path) -> None:
    """Though it should not stand there: of a command, the program is shown."""
    found = loaded(tmp_path, {"command": "x", "env": {"A": f"${{command:curl --token {CANARY} x}}"}})
    (problem,) = found.problems
    assert CANARY not in str(problem)
    assert "`${command:curl ...}`" in problem.message


@pytest.mark.parametrize("commands", [["./teller"], ["a/b"], [""], [".."], ["a\nb"], "teller", [1]])
def test_what_cannot_be_allowed(tmp_path: Path, commands: Any) -> None:
    found = loaded(tmp_path, {"command": "x"}, secrets={"commands": commands, "timeout": "3s"})
    assert [problem.where.partition("[")[0] for problem in found.problems] == ["secrets.commands"]
    assert found.config.secrets.commands == ()
    assert found.config.secrets.timeout == 3.0


def test_what_is_checked_of_a_text_with_a_secret(tmp_path: Path) -> None:
    """All that can be known of it."""
    entry = {"url": "gopher://x/${keyring:a}", "headers": {"a b": "${keyring:b}"}}
    found = loaded(tmp_path, entry)
    assert [problem.where for problem in found.problems] == ["mcpServers.box.url", 'mcpServers.box.headers["a b"]']


def test_a_literal_secret_beside_a_reference_is_known(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"url": f"https://me:{CANARY}@example.com/?k=${{keyring:x}}", "enabled": False})
    assert CANARY not in found.redactor(f"the password is {CANARY} here")


def test_a_file_is_read_at_once_and_again_later(tmp_path: Path) -> None:
    """Its text stands in the config, so that a change of it shows; the file is watched."""
    token = tmp_path / "token"
    token.write_text(f"{CANARY}\n")
    entry = {"command": "x", "env": {"A": "Bearer ${file:token}"}}
    before = loaded(tmp_path, entry)
    assert server(before).env == {"A": f"Bearer {CANARY}"}
    assert token in before.files
    assert CANARY in before.secrets
    token.write_text("another")
    changes = difference(before.config, loaded(tmp_path, entry).config)
    assert changes.replaced == {"box": ("env",)}


def test_another_reference_is_a_change_that_shows_no_value(tmp_path: Path) -> None:
    one = loaded(tmp_path, {"command": "x", "env": {"A": "${keyring:a}"}})
    other = loaded(tmp_path, {"command": "x", "env": {"A": "${keyring:b}"}})
    changes = difference(one.config, other.config)
    assert list(changes.lines()) == ["server box is connected anew (env, references)"]
    assert not difference(one.config, loaded(tmp_path, {"command": "x", "env": {"A": "${keyring:a}"}}).config)


def test_an_address_of_the_environment_goes_before_a_reference(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"url": "https://a/${keyring:x}"}, {"BOX_MCP_SERVER_URL": "https://other.example.com/mcp"})
    assert server(found).url == "https://other.example.com/mcp"
    assert not server(found).references


def test_a_start_loads_nothing_that_resolves_secrets(tmp_path: Path) -> None:
    """Neither the library nor our own code, before the first reference is resolved."""
    loaded(tmp_path, {"command": "x", "env": {"A": "${keyring:a}"}})
    script = f"""
import sys
from pathlib import Path
import aggregator.app.build
from aggregator.config.load import load
assert load(Path({str(tmp_path / "aggregator.json")!r}), {{}}).config.servers[0].references
print(sorted({{"keyring", "aggregator.secret_sources.values"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_inputs_of_vs_code_stay_as_they_were(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"command": "x", "env": {"A": "${input:api-key}"}}, {"API_KEY": CANARY})
    assert server(found).env == {"A": CANARY}
    assert not server(found).references


def test_the_parts_of_a_text_are_not_printed() -> None:
    assert CANARY not in repr(DeferredText(("env", "A"), (CANARY,)))


# -- settings outside of entries, which are read when the program starts

STORED: Final = {
    "database": f"postgresql://me:{CANARY}@db/aggregator",
    "chain": f"{CANARY}-and-more-of-it-0123456789",
    "hook": "whsec_" + "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=",
}


def test_the_keyring_serves_settings_too(keyring: Path, tmp_path: Path) -> None:
    keep(keyring, STORED)
    found = loaded(
        tmp_path,
        {"command": "x"},
        storage="${keyring:database}",
        audit={"chain_key": "${keyring:chain}"},
        notify=[{"name": "me", "url": "https://example.com/hook", "secret": "${keyring:hook}"}],
    )
    assert not found.problems
    assert found.storage == STORED["database"]
    assert found.config.audit.chain_key == STORED["chain"]
    assert found.config.notify[0].secret == STORED["hook"]
    assert set(STORED.values()) <= found.secrets


def test_a_setting_whose_secret_is_missing_stops_the_start(keyring: Path, tmp_path: Path) -> None:
    """Its default would be another database."""
    keep(keyring, {})
    found = loaded(tmp_path, {"command": "x"}, storage="${keyring:database}")
    (problem,) = found.fatal
    assert problem.where == "storage"
    assert "`aggregator secrets set database`" in problem.fix


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"storage": "${command:teller}"}, "storage"),
        ({"audit": {"chain_key": "${command:teller}"}}, "audit.chain_key"),
        ({"notify": [{"name": "me", "url": "https://example.com/${command:teller}"}]}, "notify[0].url"),
    ],
)
def test_no_program_is_run_to_read_a_setting(tmp_path: Path, settings: Json, where: str) -> None:
    """Every command of the aggregator reads them, and `aggregator trust` does so before a file is trusted."""
    ran = tmp_path / "ran"
    teller = tmp_path / "teller"
    teller.write_text(f"#!{sys.executable}\nopen({str(ran)!r}, 'w')\n")
    teller.chmod(0o755)
    settings = json.loads(json.dumps(settings).replace("teller", str(teller)))
    found = loaded(tmp_path, {"command": "x"}, secrets={"commands": [str(teller)]}, **settings)
    (problem,) = found.problems
    assert problem.where == where
    assert "cannot stand here" in problem.message
    assert "${keyring:name}" in problem.fix
    assert not ran.exists()
