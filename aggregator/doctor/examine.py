"""The examination: facts gathered side by side within a time limit, and the checks' findings about them.

Rule: one part that fails or takes too long costs its own findings alone.
"""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from aggregator import __version__
from aggregator.accounts.doctor.checks import of_accounts
from aggregator.accounts.doctor.gather import read_accounts
from aggregator.app.health_page import address, asked
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.config.settings import HttpConfig
from aggregator.doctor.checks.gateway import (
    GatewayFacts,
    of_called_name,
    of_certificate,
    of_exposure,
    of_gateway,
    of_other_agent,
)
from aggregator.doctor.checks.host_files import OwnEntry, of_host, of_lost_servers
from aggregator.doctor.checks.machine import of_machine, of_modes
from aggregator.doctor.checks.model_view import of_renamed
from aggregator.doctor.checks.policies import of_agent, of_denials, of_keys, of_policies
from aggregator.doctor.checks.programs import of_node, of_programs
from aggregator.doctor.checks.servers import of_asking, of_growing, of_servers
from aggregator.doctor.checks.storage import of_chain, of_held, of_storage
from aggregator.doctor.finding import CheckFinding, DoctorReport, found, in_order, with_option
from aggregator.doctor.gather.configuration import ConfigRead, lost_servers, read_config
from aggregator.doctor.gather.host_files import HostsFound, find_hosts, start_environment
from aggregator.doctor.gather.host_servers import INTERPRETER, of_servers_there, session_plan
from aggregator.doctor.gather.http_session import http_session, listens, owner_of
from aggregator.doctor.gather.machine import needs_node, read_certificate, read_machine, read_modes, read_programs
from aggregator.doctor.gather.sessions import HostSession, as_data, default_session, host_sessions, of_session
from aggregator.doctor.gather.storage import count_calls, read_storage
from aggregator.doctor.gather.stored import StoredRows
from aggregator.doctor.gather.trial import Shown, TrialResult, not_shown, try_servers, untried
from aggregator.domain.errors import OperatorError
from aggregator.domain.text.error_text import error_text
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.hosts.model import HostProgram, Machine
from aggregator.storage.audit.chain import ChainKey
from aggregator.tool_reports.doctor import of_reports
from aggregator.workers.cores import cores

T = TypeVar("T")

# The parts of the whole time that the trial of the servers, and then the sessions, may take.
_TRIAL: Final = 0.4
_SESSIONS: Final = 0.4
_DISK: Final = 5.0
# Two requests, each with a time limit of its own.
_GATEWAY: Final = 12.0


@dataclass(frozen=True, slots=True)
class Examination:
    """A request for an examination: the start by `host`, as `agent`, both detected by default.

    `named` is the configuration of `--config`, `url` the address of `--url`. `connect`: servers and the program itself
    are started. `patience` is the time limit of the whole in seconds. `environ` resolves references, `shown` displays
    the servers while they start.
    """

    machine: Machine
    environ: Mapping[str, str] = field(repr=False)
    named: Path | None = None
    host: HostProgram | None = None
    agent: str | None = None
    connect: bool = True
    url: str | None = None
    patience: float = 30.0
    shown: Shown = not_shown


async def examine(wanted: Examination) -> DoctorReport:
    """Return all findings about an installation; nothing is changed."""
    return await _Doctor(wanted).run()


class _Doctor:
    """One examination, with the findings so far."""

    def __init__(self, wanted: Examination) -> None:
        self._wanted = wanted
        self._findings: list[CheckFinding] = []

    async def run(self) -> DoctorReport:
        began, wanted = time.monotonic(), self._wanted
        config = await asyncio.to_thread(read_config, await self._named(), wanted.machine.folder, wanted.environ)
        self._findings += config.findings
        loaded = config.loaded
        http = loaded.config.http if loaded is not None else HttpConfig()
        servers = loaded.config.servers if loaded is not None else ()
        hosts = await asyncio.to_thread(find_hosts, wanted.machine, wanted.host, http.port, servers)
        agent = self._agent(hosts)
        for host in hosts.hosts:
            self._findings += of_host(host, config.path, wanted.agent)
        stored, calls = await self._storage(config)
        await self._accounts(config)
        gateway = self._gateway(http, config)
        trial, _, _ = await asyncio.gather(
            self._trial(config, agent, calls, stored),
            self._bounded("the gateway", gateway, _GATEWAY),
            self._machine(config),
        )
        hosts = self._with_agents_of_keys(hosts, stored)
        sessions = await self._sessions(config, hosts, agent, trial) if wanted.connect else []
        there = trial.there
        for session in sessions:
            self._findings += of_session(session, there, __version__)
            if loaded is not None:
                self._findings += await asyncio.to_thread(
                    of_servers_there, session, loaded, trial.servers, wanted.machine
                )
        await self._of_variables(config, hosts)
        self._of_trial(trial, agent, hosts, sessions, stored)
        if loaded is not None and not loaded.fatal:
            self._of_loaded(loaded, trial, stored)
            if loaded.tls is not None:
                certificate = asyncio.to_thread(read_certificate, loaded.tls)
                read = await self._bounded("the certificate", certificate, _DISK)
                self._findings += of_certificate(loaded.tls, *read, time.time()) if read is not None else ()
        return DoctorReport(
            str(config.path) if config.path is not None else None,
            agent,
            in_order([with_option(finding, config.option) for finding in self._findings]),
            tuple(as_data(session, there) for session in sessions),
            time.monotonic() - began,
        )

    async def _named(self) -> Path | None:
        """Return the configuration that was named, or that the host names which is examined."""
        wanted = self._wanted
        if wanted.named is not None or wanted.host is None:
            return wanted.named
        found = await asyncio.to_thread(find_hosts, wanted.machine, wanted.host, HttpConfig().port)
        entries = [entry for host in found.hosts for entry in host.entries if _names_config(entry)]
        return entries[0].config_file if entries else None

    def _agent(self, hosts: HostsFound) -> str:
        named = self._wanted.agent
        if named is not None:
            return named
        started = [start.agent for start in hosts.starts if start.url is None]
        return started[0] if started else self._wanted.environ.get("AGGREGATOR_AGENT") or "local"

    def _with_agents_of_keys(self, hosts: HostsFound, stored: StoredRows) -> HostsFound:
        """Return the starts over HTTP with the agents that their keys stand for."""
        agents = {str(key["key_id"]): str(key["agent_id"]) for key in stored.keys}
        starts, wanted = [], self._wanted.agent
        for start in hosts.starts:
            agent = agents.get(start.key_id) if start.key_id is not None else None
            starts.append(replace(start, agent=agent) if agent is not None else start)
            if start.url is not None and wanted is not None and agent not in (None, wanted):
                self._findings += of_other_agent(start.host.title, str(agent), wanted, str(start.place))
        return HostsFound(hosts.hosts, starts)

    async def _storage(self, config: ConfigRead) -> tuple[StoredRows, Mapping[str, int]]:
        """Return the rows of the database, and the calls of the last 30 days by server, empty if unknown."""
        url = config.storage
        if url is None or (config.loaded is None and config.path is not None):
            return StoredRows(), {}
        entries = {one.id: one.entry for one in config.loaded.config.servers} if config.loaded is not None else {}
        read = await self._bounded("the database", read_storage(url, entries), _DISK)
        if read is None:
            return StoredRows(), {}
        rows = read.rows
        self._findings += of_storage(read.facts, audited=config.loaded is None or config.loaded.config.audit.enabled)
        audit = config.loaded.config.audit if config.loaded is not None else None
        if audit is not None and audit.enabled:
            key = ChainKey(audit.chain_key).id if audit.chain_key is not None else None
            self._findings += of_chain(rows.chained, key)
        if config.loaded is not None:
            servers = config.loaded.config.servers
            ids = {server.id for server in servers}
            self._findings += of_held(rows.held, rows.less, rows.withheld, ids)
            self._findings += of_growing(rows.grows, servers)
            self._findings += of_asking(rows.asking, servers)
            self._findings += of_reports(rows.reports, ids)
        if not read.has_rows:
            return rows, {}
        # Apart, since the audit may be large.
        return rows, await self._bounded("unused servers", count_calls(url, time.time()), _DISK) or {}

    async def _accounts(self, config: ConfigRead) -> None:
        """Look at the accounts before the servers are tried, which may make a key."""
        loaded, url = config.loaded, config.storage
        if loaded is None or loaded.fatal or url is None:
            return
        if loaded.config.auth.issuers or any(server.auth is not None for server in loaded.config.servers):
            work = read_accounts(loaded, url, asks=self._wanted.connect)
            facts = await self._bounded("the accounts", work, _GATEWAY)
            self._findings += of_accounts(facts) if facts is not None else ()

    async def _trial(self, config: ConfigRead, agent: str, calls: Mapping[str, int], stored: StoredRows) -> TrialResult:
        loaded = config.loaded
        if loaded is None or loaded.fatal:
            return TrialResult(())
        if not self._wanted.connect:
            return await asyncio.to_thread(untried, loaded, calls)
        patience = self._wanted.patience * _TRIAL
        work = try_servers(loaded, agent, patience, calls, stored.withheld, self._wanted.shown)
        result = await self._bounded("the trial of the servers", work, self._wanted.patience * (_TRIAL + 0.2))
        return result if result is not None else await asyncio.to_thread(untried, loaded, calls)

    def _of_trial(
        self, trial: TrialResult, agent: str, hosts: HostsFound, sessions: list[HostSession], stored: StoredRows
    ) -> None:
        self._findings += of_servers(trial.servers)
        self._findings += of_renamed(trial.renamed)
        self._findings += of_denials(agent, trial.denials, trial.tools)
        if trial.policies is None:
            return
        self._findings += of_policies(trial.policies)
        self._findings += of_agent(trial.policies, agent)
        for agent_of_host in {start.agent: start.place for start in hosts.starts if start.url is None}.items():
            if agent_of_host[0] != agent:
                self._findings += of_agent(trial.policies, *agent_of_host)
        self._findings += of_keys(stored.keys, trial.policies.agents, time.time())

    async def _of_variables(self, config: ConfigRead, hosts: HostsFound) -> None:
        """Find the servers that lack a variable, or a folder of PATH, when a host starts the program."""
        loaded, machine, host = config.loaded, self._wanted.machine, self._wanted.host
        if loaded is None:
            return
        starts = [(start.host, start.env, str(start.place)) for start in hosts.starts if start.url is None]
        if not starts and host is not None:
            starts = [(host, start_environment(host.id, machine), "the file of the host")]
        for one, env, place in starts:
            lost = await asyncio.to_thread(lost_servers, loaded, {**INTERPRETER, **env})
            self._findings += of_lost_servers(one.title, lost, place)
            programs = await asyncio.to_thread(read_programs, loaded, env, machine.home)
            self._findings += of_programs(programs, one.title, one.id)

    def _of_loaded(self, loaded: Loaded, trial: TrialResult, stored: StoredRows) -> None:
        agents = trial.policies.agents if trial.policies is not None else None
        keys = any(key["revoked"] is None for key in stored.keys)
        self._findings += of_exposure(loaded.config, has_policies=agents is not None, has_keys=keys)
        if self._wanted.url is not None:
            own, host = OwnAddress(loaded.config.http), urlsplit(self._wanted.url).netloc.rpartition("@")[2]
            self._findings += of_called_name(own.accepts_host(host, None), self._wanted.url, own.hosts)

    async def _gateway(self, http: HttpConfig, config: ConfigRead) -> None:
        base = self._wanted.url or (address(http) if http.port else None)
        tls = config.loaded.tls if config.loaded is not None and self._wanted.url is None else None
        if base is None or not await asyncio.to_thread(listens, base):
            return
        try:
            report = await asyncio.to_thread(asked, base, tls)
        except (OSError, ValueError, OperatorError) as error:
            owner = await asyncio.to_thread(owner_of, urlsplit(base).port or http.port)
            facts = GatewayFacts(base, True, None, None, owner or type(error).__name__)
            self._findings += of_gateway(facts, config.path, __version__)
            return
        seen = await asyncio.to_thread(http_session, f"{base}{http.path}", {}, "aggregator-doctor", _DISK, tls)
        programs = _programs(config.loaded.config) if config.loaded is not None else ()
        facts = GatewayFacts(base, True, report, seen.version, cores=cores(), programs=programs)
        self._findings += of_gateway(facts, config.path, __version__)

    async def _machine(self, config: ConfigRead) -> None:
        wanted, loaded = self._wanted, config.loaded
        environ = wanted.machine.environ
        facts = await self._bounded("the machine", asyncio.to_thread(read_machine, loaded, environ, time.time()), _DISK)
        if facts is not None:
            self._findings += of_machine(facts)
        if loaded is None:
            return
        modes = await self._bounded("permissions", asyncio.to_thread(read_modes, loaded), _DISK)
        if modes is not None:
            self._findings += of_modes(*modes)
        if facts is not None and facts.node is not None:
            self._findings += of_node(*facts.node, needs_node(loaded))

    async def _sessions(
        self, config: ConfigRead, hosts: HostsFound, agent: str, trial: TrialResult
    ) -> list[HostSession]:
        wanted, loaded = self._wanted, config.loaded
        patience = wanted.patience * _SESSIONS
        plan = session_plan(loaded, trial.servers, patience)
        if hosts.starts:
            return await host_sessions(hosts.starts, plan)
        if (
            loaded is None
            or loaded.fatal
            or config.path is None
            or any(not entry.held_back for host in hosts.hosts for entry in host.entries)
        ):
            return []
        return [await default_session(wanted.host, config.path, agent, wanted.machine, plan)]

    async def _bounded(self, name: str, work: Awaitable[T], patience: float) -> T | None:
        """Return the result of one part; None, with a finding, if it does not end in time."""
        try:
            async with asyncio.timeout(patience):
                return await work
        except TimeoutError:
            said = f"The check of {name} did not end within {patience:.0f} s."
            self._findings.append(found("check_unfinished", said, "Try again, or give it longer with `--timeout`."))
        except (OperatorError, OSError) as error:
            self._findings.append(found("check_unfinished", f"The check of {name} ended: {error_text(error)}"))
        return None


def _programs(config: Config) -> tuple[str, ...]:
    """Return the servers that each worker starts for itself."""
    return tuple(one.id for one in config.servers if one.type == "stdio" and one.enabled)


def _names_config(entry: OwnEntry) -> bool:
    return entry.enabled and not entry.held_back and bool(entry.config_exists)
