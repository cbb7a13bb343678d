"""The gateway that runs, or would: its port, its answers to a host, its files, who may connect. This file decides."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aggregator.config.model import Config
from aggregator.config.settings import TlsConfig
from aggregator.doctor.finding import CheckFinding, brief, found
from aggregator.domain.shell import shell_word
from aggregator.domain.uris.addresses import is_loopback
from aggregator.frontends.tls import CertificateFacts


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """The program at the address of the gateway: `report` is its health page, or None.

    `listens`: a program listens there, perhaps another one, then `owner` if known. `version` is the gateway's version
    from a handshake. `cores` are the machine's cores, and `programs` the servers that each worker starts for itself.
    """

    base: str
    listens: bool
    report: Mapping[str, Any] | None = None
    version: str | None = None
    owner: str | None = None
    cores: int | None = None
    programs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer to a host that connects over HTTP: a status, and the sentence of a refusal; None for no answer."""

    title: str
    host: str
    place: str | None
    url: str
    status: int | None
    said: str = ""


# What a refusal says, its code, and the mend.
_REFUSALS: Final = (
    ("has expired", "key_refused", "Make a new key with `aggregator keys new AGENT`, and put it into {place}."),
    ("was revoked", "key_refused", "Make a new key with `aggregator keys new AGENT`, and put it into {place}."),
    ("not known", "key_refused", "Make a key with `aggregator keys new AGENT`, and put it into {place}."),
    ("mistyped", "key_refused", "Correct the key in {place}, or make another with `aggregator keys new AGENT`."),
    ("A key is needed", "key_refused", "Make a key with `aggregator keys new AGENT`, and put it into {place}."),
    (
        "token or a key is needed",
        "key_refused",
        "Make a key with `aggregator keys new AGENT`, and put it into {place}.",
    ),
    ("exactly one key", "key_refused", "Leave one key, in one header, in {place}."),
    ("followed by one key", "key_refused", "Write the header as `Authorization: Bearer agk_...` in {place}."),
    ("A key in a URL", "key_refused", "Take the key out of the address in {place}, and send it in a header."),
    ("this agent's endpoint", "key_refused", "Put a key of the agent that the address names into {place}."),
    ("is not served here", "gateway_host_refused", 'Add the name to "http": {{"allowed_hosts": [...]}}.'),
    ("Origin", "gateway_origin_refused", 'Add the page to "http": {{"allowed_origins": [...]}}.'),
    ("a proxy passed", "gateway_proxy", "Send a key: requests that a proxy passes on need one."),
    ("only this machine", "key_refused", "Make a key with `aggregator keys new AGENT`, and put it into {place}."),
)


def of_gateway(facts: GatewayFacts, config: Path | None, own_version: str) -> Iterator[CheckFinding]:
    """Yield the findings about a gateway at the address of the configuration; none if nothing listens."""
    if not facts.listens:
        return
    if facts.report is None:
        owner = f" ({facts.owner})" if facts.owner else ""
        yield found(
            "gateway_port_taken",
            f"Another program{owner} listens at {facts.base}, so `aggregator serve` cannot.",
            'End it, or choose another port: "http": {"port": 8643}.',
            facts.base,
        )
        return
    report = facts.report
    servers = report.get("servers")
    count = f" and serves {report['tools']} tools" if isinstance(report.get("tools"), int) else ""
    yield found("gateway_answers", f"A gateway runs at {facts.base}{count}.", None, facts.base)
    if facts.version is not None and facts.version != own_version:
        yield found(
            "gateway_other_version",
            f"The gateway at {facts.base} is version {facts.version}; this is {own_version}.",
            "Restart it, so that it runs the version that is installed.",
            facts.base,
        )
    files = report.get("config")
    if isinstance(files, Mapping):
        yield from _of_files(facts.base, files, config)
    policies = report.get("policies")
    if isinstance(policies, Mapping) and (effect := policies.get("effect")):
        yield found(
            "gateway_config_old",
            f"{effect} This holds for the gateway at {facts.base}.",
            "Mend them: `aggregator policy check` names each place.",
            facts.base,
        )
    yield from _of_workers(facts, report)
    for said in _troubles(report, servers if isinstance(servers, Mapping) else {}):
        yield found("gateway_trouble", said, "`aggregator status` tells more.", facts.base)


def _of_files(base: str, files: Mapping[str, Any], config: Path | None) -> Iterator[CheckFinding]:
    file = files.get("file")
    if isinstance(file, str) and config is not None and Path(file) != config.absolute():
        yield found(
            "gateway_other_config",
            f"The gateway at {base} runs with {file}, not with {config}.",
            f"Examine that one with `--config {shell_word(file)}`, or start the gateway with "
            f"`--config {shell_word(str(config))}`.",
            base,
        )
    if files.get("broken"):
        yield found(
            "gateway_config_old",
            f"The gateway at {base} keeps an older configuration, since the file has errors now.",
            "Mend the errors above; it takes the file over by itself.",
            base,
        )
    waiting = files.get("wait_for_restart")
    if waiting:
        yield found(
            "gateway_restart",
            f"These settings count only after a restart of the gateway at {base}: {', '.join(map(str, waiting))}.",
            "Restart it.",
            base,
        )


def _of_workers(facts: GatewayFacts, report: Mapping[str, Any]) -> Iterator[CheckFinding]:
    """Yield whether there are more workers than cores, or than programs of servers there should be."""
    workers = len({str(one["worker"]) for one in _replicas(report) if "worker" in one})
    if facts.cores is not None and workers > facts.cores:
        yield found(
            "gateway_workers",
            f"{workers} workers share {facts.cores} cores, so they answer no faster, and take more memory.",
            "Start `aggregator serve --workers auto`: one for each core.",
            facts.base,
        )
    if workers > 1 and facts.programs:
        count = len(facts.programs)
        names = ", ".join(facts.programs[:5]) + (", ..." if count > 5 else "")
        yield found(
            "gateway_programs",
            f"Each of {workers} workers starts {count} servers for itself ({names}): {workers * count} processes.",
            "If a server takes much memory, or must run once, give it an aggregator of its own: docs/scaling.md.",
            facts.base,
        )


def _replicas(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the replicas that a report names."""
    listed = report.get("replicas")
    return [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []


def _troubles(report: Mapping[str, Any], servers: Mapping[str, Any]) -> Iterator[str]:
    silent = [str(one.get("name")) for one in _replicas(report) if "problem" in one]
    if silent:
        yield f"Of the running gateway, these do not answer: {', '.join(silent)}."
    if report.get("stopping"):
        yield "The running gateway is shutting down."
    well = ("ready", "disabled", "stopped", "starting")
    away = [
        f"{name} ({brief(str(one['reason']))})" if one.get("reason") else name
        for name, one in servers.items()
        if isinstance(one, Mapping) and one.get("state") not in well
    ]
    if away:
        yield f"Not available in the running gateway, which has variables of its own: {', '.join(away)}."
    for name in ("keys", "catalogs", "audit"):
        if report.get(name):
            yield f"The running gateway says of its {name}: {report[name]}"


def of_answer(answer: HttpAnswer) -> Iterator[CheckFinding]:
    """Yield why a host that connects over HTTP is not served."""
    place = answer.place or "the file of the host"
    if answer.status is None:
        yield found(
            "gateway_not_running",
            f"{answer.title} connects to {answer.url}, where no gateway answers"
            f"{f' ({answer.said})' if answer.said else ''}.",
            "Start it with `aggregator serve`, or run `aggregator install "
            f"{answer.host}`, by which the host starts it itself.",
            answer.place,
        )
        return
    if answer.status < 400:
        return
    for sentence, code, fix in _REFUSALS:
        if sentence in answer.said:
            said = f"The gateway at {answer.url} refuses {answer.title} (HTTP {answer.status}): {answer.said}"
            yield found(code, said, fix.format(place=place), answer.place)
            return
    if answer.status in (404, 405, 406):
        yield found(
            "gateway_path",
            f"{answer.title} connects to {answer.url}, which is not an address of a frontend (HTTP {answer.status}).",
            "Write the address that `aggregator serve` prints, which ends in /mcp by default.",
            answer.place,
        )
        return
    yield found(
        "gateway_path" if answer.status < 500 else "gateway_trouble",
        f"{answer.url} answers {answer.title} with HTTP {answer.status}{f': {answer.said}' if answer.said else ''}.",
        "`aggregator status` tells more.",
        answer.place,
    )


def of_other_agent(title: str, agent: str, wanted: str, place: str) -> Iterator[CheckFinding]:
    """Yield that the key in the file of a host belongs to another agent than the wanted one."""
    yield found(
        "key_other_agent",
        f"The key that {title} sends stands for the agent {agent}, not for {wanted}.",
        f"Make one with `aggregator keys new {wanted}`, and put it into {place}.",
        place,
    )


def of_exposure(config: Config, *, has_policies: bool, has_keys: bool) -> Iterator[CheckFinding]:
    """Yield what `aggregator serve` would refuse, and settings about proxies that do not fit together."""
    http = config.http
    if not (http.enabled or config.sse.enabled or config.v1.enabled or config.stdio.enabled):
        yield found(
            "gateway_nothing_served",
            "Every frontend is disabled, so no host can connect.",
            'Take "enabled": false out of "stdio" or "http".',
            "stdio.enabled",
        )
    if not is_loopback(http.host) and not has_policies and not has_keys:
        yield found(
            "gateway_not_open",
            f"`aggregator serve` refuses to listen on {http.host}: without a key everybody who connects could do "
            "everything.",
            'Run `aggregator keys new AGENT`, or take "host" out of "http".',
            "http.host",
        )
    if http.public_url is not None and not http.trusted_proxies:
        yield found(
            "gateway_proxy",
            f"`http.public_url` ({http.public_url}) speaks of a proxy, and `http.trusted_proxies` names none, so all "
            "requests seem to come from the proxy itself.",
            'Name it: "http": {"trusted_proxies": ["127.0.0.1"]} with its address.',
            "http.trusted_proxies",
        )


def of_certificate(
    tls: TlsConfig, facts: CertificateFacts | None, fault: str | None, now: float
) -> Iterator[CheckFinding]:
    """Yield the faults of the files of `http.tls`, and whether their certificate is about to end."""
    if fault is not None:
        fix = 'Name files that can be used: "http": {"tls": {"certificate": "...", "key": "..."}}, or take `tls` out.'
        yield found("gateway_tls", fault, fix, "http.tls")
    elif facts is not None and (facts.problem is not None or facts.ends_soon(now)):
        yield found(
            "gateway_tls_ends",
            f"The certificate in {tls.certificate}: {facts}.",
            "Put a new certificate into the same files: a running gateway loads it by itself.",
            tls.certificate,
        )


def of_called_name(accepted: bool, url: str, names: Sequence[str]) -> Iterator[CheckFinding]:
    """Yield whether the gateway would refuse the name in an address that it is called by."""
    if not accepted:
        yield found(
            "gateway_host_refused",
            f"Requests to {url} would be refused: the gateway answers to {', '.join(names)}.",
            'Add the name to "http": {"allowed_hosts": [...]}, or set "public_url".',
            "http.allowed_hosts",
        )
