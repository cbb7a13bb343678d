"""Holds the files of `deploy/` to the program and to each other: ports, paths, settings, options, metrics, times."""

import json
import os
import plistlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from aggregator.config.durations import parse_duration
from aggregator.config.load import Loaded, load
from aggregator.config.model import Config
from aggregator.config.settings import HttpConfig
from aggregator.policy.files.checking import check
from aggregator.policy.files.folder import read_folder
from tests.end_to_end.programs import run

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
CONTAINERFILE: Final = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
AGENT: Final[dict[str, Any]] = plistlib.loads((DEPLOY / "launchd" / "local.aggregator.plist").read_bytes())
UNIT: Final = (DEPLOY / "systemd" / "aggregator.service").read_text(encoding="utf-8")
BASE: Final = DEPLOY / "kubernetes" / "base"
OVERLAY: Final = DEPLOY / "kubernetes" / "overlays" / "example"
COMPOSE: Final = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
CONFIGS: Final = [
    DEPLOY / "compose" / "config" / "aggregator.json",
    BASE / "config" / "aggregator.json",
    OVERLAY / "aggregator.json",
]
POLICIES: Final = [DEPLOY / "compose" / "policies", BASE / "policies", OVERLAY]
PORT: Final = HttpConfig().port
PEERS: Final = PORT + 1
USER: Final = 65532


def manifest(name: str) -> Any:
    return yaml.safe_load((BASE / name).read_text(encoding="utf-8"))


def pod() -> Any:
    return manifest("deployment.yaml")["spec"]["template"]["spec"]


def loaded(path: Path, folder: Path) -> Loaded:
    """Read a configuration whose secrets are in a folder of the test."""
    text = path.read_text(encoding="utf-8")
    for named in re.findall(r"\$\{file:(/run/secrets/[^}]+)\}", text):
        secret = folder / named.removeprefix("/")
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text("a-secret-of-more-than-32-characters\n")
        text = text.replace(named, str(secret))
    copy = folder / "aggregator.json"
    copy.write_text(text)
    return load(copy, {**os.environ, "POD_IP": "10.0.0.7"})


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_the_configurations_have_no_fault(tmp_path: Path, path: Path) -> None:
    found = loaded(path, tmp_path)
    assert [one for one in found.problems if "no servers" not in one.message] == []
    assert found.config.http.port == PORT
    assert found.config.replicas.listen == f"0.0.0.0:{PEERS}"
    assert str(found.config.storage).startswith("postgresql://aggregator@")
    if path != CONFIGS[0]:
        assert found.config.replicas.address == f"http://10.0.0.7:{PEERS}"


@pytest.mark.parametrize("folder", POLICIES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_the_policies_have_no_fault_and_let_prometheus_read(tmp_path: Path, folder: Path) -> None:
    """With an agent in them no one comes in without a key, so that `--host 0.0.0.0` is not refused."""
    shutil.copy(folder / "agents.yaml", tmp_path)
    read = check(*read_folder(tmp_path))
    assert read.documents is not None
    assert not read.problems
    written = yaml.safe_load((folder / "agents.yaml").read_text(encoding="utf-8"))
    assert written["agents"]["prometheus"]["roles"] == ["metrics"]


async def test_the_commands_and_options_exist() -> None:
    commands = [
        json.loads(found) for found in re.findall(r"^(?:CMD|ENTRYPOINT) (\[.+\])$", CONTAINERFILE, re.MULTILINE)
    ]
    health = re.search(r"^HEALTHCHECK .*CMD (\[.+\])$", CONTAINERFILE, re.MULTILINE)
    assert health is not None
    assert json.loads(health[1]) == ["aggregator", "status", "--ready"]
    assert commands == [["tini", "--", "aggregator"], pod()["containers"][0]["args"]]
    serve, status = (await run("serve", "--help")).out, (await run("status", "--help")).out
    started = re.search(r"^ExecStart=\S+/aggregator serve (.+)$", UNIT, re.MULTILINE)
    assert started is not None
    for option in (
        word for word in (*commands[1], *started[1].split(), *AGENT["ProgramArguments"][2:]) if word.startswith("--")
    ):
        assert option in serve
    assert "--ready" in status


def test_the_agent_of_launchd_is_for_one_user_and_needs_no_shell() -> None:
    """launchd expands neither `~` nor variables, and its PATH is that of the system."""
    words = [*AGENT["ProgramArguments"], AGENT["WorkingDirectory"], AGENT["StandardErrorPath"]]
    assert all(not word.startswith("~") and "$" not in word for word in words)
    assert AGENT["ProgramArguments"][1] == "serve"
    assert AGENT["EnvironmentVariables"]["PATH"].split(":")[-4:] == ["/usr/bin", "/bin", "/usr/sbin", "/sbin"]
    assert AGENT["KeepAlive"] == {"SuccessfulExit": False}
    assert AGENT["Umask"] == 0o077
    assert f"{AGENT['Label']}.plist" in (ROOT / "docs" / "running.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("user", ["ann", "Zoë Ann"])
def test_the_commands_of_the_docs_make_the_agent(tmp_path: Path, user: str) -> None:
    """On a new account, which has no folder for agents, with any home folder; launchd is not here."""
    running = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    home = tmp_path / "Volumes" / user
    home.mkdir(parents=True)
    block = re.search(r"### launchd.*?```sh\n(.*?)```", running, re.DOTALL)
    assert block is not None
    made, loaded = block[1].split("launchctl ")
    assert loaded.startswith("bootstrap gui/$(id -u) ~/Library/LaunchAgents/")
    subprocess.run(["sh", "-euc", made], cwd=ROOT, env={**os.environ, "HOME": str(home)}, check=True)
    agent = plistlib.loads((home / "Library" / "LaunchAgents" / f"{AGENT['Label']}.plist").read_bytes())
    assert agent == json.loads(json.dumps(AGENT).replace("/Users/YOU", str(home)))
    assert agent["WorkingDirectory"] == str(home)


def test_the_build_takes_what_is_there() -> None:
    for line in re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE, re.MULTILINE):
        for path in line.split()[:-1]:
            assert (ROOT / path).exists(), path
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.search(r'pip install "\.\[(.+)\]"', CONTAINERFILE)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
    assert project["readme"] in CONTAINERFILE
    python = re.search(r"^ARG PYTHON_IMAGE=\S+:(3\.\d+)-", CONTAINERFILE, re.MULTILINE)
    assert python is not None
    assert f"Programming Language :: Python :: {python[1]}" in project["classifiers"]
    targets = re.findall(r"^FROM \S+ AS (\w+)$", CONTAINERFILE, re.MULTILINE)
    assert COMPOSE["services"]["aggregator"]["build"]["target"] in targets


def test_ports_and_users_are_the_same_everywhere() -> None:
    assert f"EXPOSE {PORT} {PEERS}" in CONTAINERFILE
    assert set(re.findall(r"^USER (.+)$", CONTAINERFILE, re.MULTILINE)) == {"0", f"{USER}:{USER}"}
    assert CONTAINERFILE.rstrip().endswith("FROM slim")
    ports = {port["name"]: port["containerPort"] for port in pod()["containers"][0]["ports"]}
    assert ports == {"http": PORT, "replicas": PEERS}
    context = pod()["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (USER, USER, USER)
    assert [port["port"] for port in manifest("service.yaml")["spec"]["ports"]] == [PORT]
    rules = manifest("networkpolicy.yaml")["spec"]
    assert [rule["ports"][0]["port"] for rule in rules["ingress"]] == ["http", "replicas"]
    assert "from" in rules["ingress"][1], "replicas alone reach the port of replicas"
    assert PEERS in [port["port"] for rule in rules["egress"] for port in rule["ports"]]
    published = COMPOSE["services"]["aggregator"]["ports"]
    assert published == [f"127.0.0.1:{PORT}:{PORT}"], "the port of replicas is never published"
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    assert scraped["scrape_configs"][0]["dns_sd_configs"][0]["port"] == PORT


def test_mounts_lead_where_the_configuration_looks(tmp_path: Path) -> None:
    mounts = {one["name"]: one["mountPath"] for one in pod()["containers"][0]["volumeMounts"]}
    assert all("subPath" not in one for one in pod()["containers"][0]["volumeMounts"])
    assert {one["name"] for one in pod()["volumes"]} == set(mounts)
    config = json.loads(CONFIGS[1].read_text(encoding="utf-8"))
    assert config["policies"] == mounts["policies"]
    assert mounts["config"] == "/etc/aggregator"
    assert "XDG_CONFIG_HOME=/etc" in CONTAINERFILE
    assert f"${{file:{mounts['secrets']}/" in config["storage"]
    assert mounts["data"] in CONTAINERFILE
    service = COMPOSE["services"]["aggregator"]
    targets = [volume.split(":")[1] for volume in service["volumes"]]
    assert targets == ["/etc/aggregator", "/etc/aggregator-policies", "/var/lib/aggregator"]
    for volume in (volume for one in COMPOSE["services"].values() for volume in one.get("volumes", ())):
        source = volume.split(":")[0]
        assert not source.startswith(".") or (DEPLOY / "compose" / source).resolve().exists(), source


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_a_process_has_the_time_to_end(tmp_path: Path, path: Path) -> None:
    """What gives it up comes later than the time to leave and to drain, and what servers take after them."""
    config = loaded(path, tmp_path).config
    needed = (config.shutdown_delay or 0) + config.shutdown_timeout + 5
    stop = re.search(r"^TimeoutStopSec=(\S+)$", UNIT, re.MULTILINE)
    assert stop is not None
    if path == CONFIGS[0]:
        given = parse_duration(COMPOSE["services"]["aggregator"]["stop_grace_period"])
    else:
        given = pod()["terminationGracePeriodSeconds"]
    assert needed <= given
    assert parse_duration(stop[1]) >= Config().shutdown_timeout + 10
    assert AGENT["ExitTimeOut"] == parse_duration(stop[1])


def test_alerts_speak_of_metrics_that_there_are() -> None:
    told = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    metrics = set(re.findall(r"^\| `(aggregator_\w+)`", told, re.MULTILINE))
    rules = (DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    used = {re.sub(r"_bucket$", "", name) for name in re.findall(r"aggregator_\w+", rules)}
    assert used <= metrics


def test_pods_may_do_nothing_that_they_need_not() -> None:
    container, spec = pod()["containers"][0], pod()
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    allowed = container["securityContext"]
    assert allowed == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "preStop" not in json.dumps(container)
    for name, service in COMPOSE["services"].items():
        assert not service.get("privileged"), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name


def checked(program: str, *arguments: str, folder: Path = DEPLOY) -> subprocess.CompletedProcess[str]:
    """Run a checker that not every machine has."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: what it would check was not checked")
    return subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_the_unit_is_hardened() -> None:
    """The exposure level that systemd works out is under 3 of 10."""
    done = checked("systemd-analyze", "security", "--offline=yes", "--threshold=30", "systemd/aggregator.service")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_fire_when_they_should() -> None:
    done = checked("promtool", "test", "rules", "alerts_test.yml", folder=DEPLOY / "prometheus")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", ["kubernetes/base", "kubernetes/overlays/example"])
def test_kustomize_renders(folder: str) -> None:
    done = checked("kubectl", "kustomize", folder)
    assert done.returncode == 0, done.stderr
    made = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout)}
    labels = {"app.kubernetes.io/name": "aggregator"}
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert made[kind, "aggregator"]["spec"]["selector"] == {"matchLabels": labels}
    assert made["NetworkPolicy", "aggregator"]["spec"]["podSelector"] == {"matchLabels": labels}
    assert made["Service", "aggregator"]["spec"]["selector"] == labels
    volumes = made["Deployment", "aggregator"]["spec"]["template"]["spec"]["volumes"]
    for volume in (one["configMap"]["name"] for one in volumes if "configMap" in one):
        assert ("ConfigMap", volume) in made, "no hash in the name: an edit reaches pods that run"
