"""Configuration and policies as Kubernetes mounts them: files behind `..data`, a link that is swapped whole."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.end_to_end.programs import serving
from tests.end_to_end.scripted_host import MODERN, over_http
from tests.operating.program_harness import server, words
from tests.polling import until
from tests.tool_lists import of_servers


class MountedMap:
    """A ConfigMap as a volume (kubernetes/pkg/volume/util/atomic_writer.go)."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self._folder = folder
        self._versions = 0
        folder.mkdir()
        self.write(files)

    def write(self, files: Mapping[str, str]) -> None:
        """Replace all files in one step, as the kubelet does: a new folder, the link, then the old folder goes."""
        self._versions += 1
        version = self._folder / f"..2026_11_23_10_00_{self._versions:02}.1234"
        version.mkdir()
        for name, text in files.items():
            (version / name).write_text(text)
            # Every version has the same times, so that only the files themselves tell them apart.
        before = self._folder / "..data"
        old = before.resolve() if before.is_symlink() else None
        new = self._folder / "..data_tmp"
        new.symlink_to(version.name)
        new.replace(before)
        for name in files:
            if not (self._folder / name).is_symlink():
                (self._folder / name).symlink_to(Path("..data") / name)
        for link in self._folder.iterdir():
            if link.is_symlink() and not link.name.startswith("..") and link.name not in files:
                link.unlink()
        if old is not None:
            shutil.rmtree(old)


def policy(*allowed: str) -> str:
    return f"agents:\n  local:\n    allow: {json.dumps(allowed)}\n"


async def test_a_swapped_map_is_taken_while_it_runs(tmp_path: Path) -> None:
    """Proves: F6. Both of the configuration and of the policies; a broken map changes nothing."""
    mount = tmp_path / "config"
    settings = {"storage": f"sqlite:///{tmp_path}/a.db", "policies": str(tmp_path / "policies")}

    def config(*names: str) -> dict[str, str]:
        servers = {name: server() for name in names}
        return {"aggregator.json": json.dumps({"mcpServers": servers, **settings})}

    configs = MountedMap(mount, config("box"))
    policies = MountedMap(tmp_path / "policies", {"agents.yaml": policy("box.*")})
    async with serving(mount / "aggregator.json") as served:
        log = served.log

        def logged(text: str, times: int = 1) -> bool:
            return "".join(log).count(text) >= times

        async with over_http(served.url, MODERN) as host:

            async def listed() -> set[str]:
                return set(of_servers(tool["name"] for tool in (await host.ask("tools/list").result())["tools"]))

            async def has(*names: str) -> bool:
                return await listed() == set(names)

            await until(lambda: has("box.who", "box.wait"), "the first map is in force")
            configs.write(config("box", "other"))
            await until(lambda: logged("server other is added"), "the configuration is taken")
            policies.write({"agents.yaml": policy("box.who", "other.who")})
            await until(lambda: has("box.who", "other.who"), "the policies are taken")
            assert words(await host.call("other.who").result())
            policies.write({"other.yaml": policy("box.who")})
            await until(lambda: has("box.who"), "a file of another name is taken, and the old one is gone")
            configs.write({"aggregator.json": "{"})
            await until(lambda: logged("cannot be used, so the one in force stays"), "a broken map is refused")
            policies.write({"other.yaml": "agents: ["})
            await until(lambda: logged("the rules that were in force stay"), "broken policies are refused")
            assert await listed() == {"box.who"}
            configs.write(config("box"))
            await until(lambda: logged("server other is removed"), "the next good map is taken")
            assert words(await host.call("box.who").result())
