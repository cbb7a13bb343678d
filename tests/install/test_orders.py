"""Installs, undos and edits of other programs, in any order."""

import json
import os
import shutil
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aggregator.cli.hosts.install.command import run
from aggregator.cli.hosts.install.options import InstallOptions
from aggregator.domain.errors import OperatorError
from tests import with_folders_of_windows
from tests.laws import examples

SECRET = "ghp_k4n4ry0123456789abcdefghijklmnopqrstu"
HOSTS = {"cursor": ".cursor/mcp.json", "windsurf": ".codeium/windsurf/mcp_config.json"}
CONFIG = ".config/aggregator/aggregator.json"
hosts = st.sampled_from(sorted(HOSTS))


@dataclass
class Known:
    """One install, with the files before and after it."""

    host: str
    name: str
    before: dict[str, bytes]
    after: dict[str, bytes]

    def states(self, now: dict[str, bytes]) -> set[str]:
        """What each of the files that this install changed holds now."""
        changed = [path for path in self.after if self.before.get(path) != self.after[path]]
        return {self._state(path, now.get(path)) for path in changed}

    def _state(self, path: str, content: bytes | None) -> str:
        if content == self.after[path]:
            return "after"
        return "before" if content == self.before.get(path) else "changed"


class Orders(RuleBasedStateMachine):
    """Two hosts with servers of their own, and one configuration that both are moved into."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.home = Path(tempfile.mkdtemp())
        own = with_folders_of_windows({"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")})
        self.patch.setattr(os, "environ", {"PATH": os.defpath, **own})
        self.patch.setenv("HOME", str(self.home))
        self.patch.chdir(self.home)
        self.count = self.agents = 0
        self.installs: list[Known] = []
        self.servers = {"time"}
        (self.home / CONFIG).parent.mkdir(parents=True)
        (self.home / CONFIG).write_text('{"mcpServers": {"time": {"command": "/bin/sh"}}}')
        self.server_for_host("cursor")

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.home)

    def files(self) -> dict[str, bytes]:
        paths = {path: self.home / path for path in (CONFIG, *HOSTS.values())}
        return {name: path.read_bytes() for name, path in paths.items() if path.exists()}

    def run(self, **options: Any) -> str | None:
        """Run the command; return the sentence with which it refuses."""
        before, shown = self.files(), StringIO()
        try:
            with redirect_stdout(shown):
                run(InstallOptions(write=True, **options))
            said = None
        except OperatorError as error:
            said = str(error)
        assert said is None or self.files() == before
        assert SECRET not in f"{said} {shown.getvalue()}"
        return said

    @rule(host=hosts, name=st.sampled_from(["aggregator", "second"]), take_over=st.booleans(), another=st.booleans())
    def install(self, host: str, name: str, take_over: bool, another: bool) -> None:
        """Install for the agent of before or a new one: no install but an undo leads back to a content of before."""
        before = self.files()
        self.agents += another
        assert self.run(host=host, name=name, take_over=take_over, agent=f"shop{self.agents}") is None
        if self.files() != before:
            self.installs.append(Known(host, name, before, self.files()))

    @rule(host=hosts)
    def undo(self, host: str) -> None:
        now = self.files()
        theirs = [known for known in self.installs if known.host == host and known.states(now) != {"before"}]
        said = self.run(host=host, undo=True)
        if not theirs:
            assert said is not None
            assert "nothing to undo" in said
        elif "changed" in theirs[-1].states(now):
            assert said is not None
            assert "--undo" in said
        else:
            assert said is None
            known = theirs[-1]
            for path in known.after:
                if known.after[path] != known.before.get(path):
                    assert self.files().get(path) == known.before.get(path)
            self.installs.remove(known)
        self.installs = [known for known in self.installs if known.host != host or known.states(now) != {"before"}]

    @rule(host=hosts)
    def take_out_the_entry(self, host: str) -> None:
        now = self.files()
        theirs = [known for known in self.installs if known.host == host and known.states(now) != {"before"}]
        said = self.run(host=host, undo=True, only_entry=True)
        assert (said is None) == bool(theirs)
        self.installs = [
            known
            for known in self.installs
            if known not in theirs[-1:] and (known.host != host or known.states(now) != {"before"})
        ]

    @rule(host=hosts)
    def server_for_host(self, host: str) -> None:
        """A person adds a server to a host."""
        self.count += 1
        path, name = self.home / HOSTS[host], f"server{self.count}"
        root = json.loads(path.read_text()) if path.exists() else {}
        root.setdefault("mcpServers", {})[name] = {"command": name, "env": {"TOKEN": SECRET}}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(root, indent=self.count % 3))
        self.servers.add(name)

    @rule()
    def server_for_us(self) -> None:
        """A person adds a server to our configuration."""
        self.count += 1
        root, name = json.loads((self.home / CONFIG).read_text()), f"server{self.count}"
        root["mcpServers"][name] = {"command": name}
        (self.home / CONFIG).write_text(json.dumps(root))
        self.servers.add(name)

    @precondition(lambda self: self.installs)
    @rule()
    def undo_all(self) -> None:
        """Undo everything in reverse, as long as nobody changed a file."""
        while self.installs and self.installs[-1].states(self.files()) == {"after"}:
            left = len(self.installs)
            self.undo(self.installs[-1].host)
            assert len(self.installs) < left

    @invariant()
    def no_server_is_lost(self) -> None:
        together = b"".join(self.files().values()).decode()
        assert not [name for name in self.servers if f'"{name}": {{' not in together]


Orders.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=15)
TestOrders = Orders.TestCase
