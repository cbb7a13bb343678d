"""TLS of our own: hosts call over it, certificates are replaced while it runs, and faults name the file and the fix."""

import asyncio
import json
import os
import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest

from aggregator.config.load import load, must_start
from aggregator.config.settings import TlsConfig
from aggregator.domain.errors import OperatorError
from aggregator.frontends.tls import facts_of, server_context
from tests.console.console_harness import FORM
from tests.deploy.authority import Authority
from tests.end_to_end.programs import run, serving
from tests.end_to_end.scripted_host import LEGACY, MODERN, over_http
from tests.end_to_end.server_harness import write_config
from tests.operating.program_harness import server, words
from tests.polling import BOUND, until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def mounted(folder: Path, authority: Authority, version: str, name: str) -> Path:
    """Write a certificate as Kubernetes mounts a secret: a folder behind `..data`, which is swapped whole."""
    authority.give(folder / version, name)
    swap = folder / "..data_tmp"
    swap.symlink_to(version)
    swap.replace(folder / "..data")
    for file in ("tls.crt", "tls.key"):
        if not (folder / file).is_symlink():
            (folder / file).symlink_to(Path("..data") / file)
    return folder


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    """Return the section `http` for the files of a folder."""
    return {"tls": {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key"), **more}}


async def shown(url: str, trust: ssl.SSLContext, name: str) -> str:
    """Return the first name of the certificate that a new connection gets; `name` is the one it asks for."""
    port = httpx2.URL(url).port
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)
    names: Any = writer.get_extra_info("peercert")["subjectAltName"]
    writer.transport.abort()
    return str(names[0][1])


async def test_hosts_call_over_tls_in_both_eras(tmp_path: Path, authority: Authority) -> None:
    """The same as without: the second call of a connection, which takes the short way, too."""
    folder = mounted(tmp_path / "tls", authority, "..1", "localhost")
    config = write_config(tmp_path, {"box": server()}, http=settings(folder), storage=f"sqlite:///{tmp_path}/a.db")
    async with serving(config) as served:
        assert served.url.startswith("https://127.0.0.1:")
        trust = authority.trust()
        for version in (LEGACY[0], MODERN):
            async with over_http(served.url, version, tls=trust) as host:
                told = [json.loads(words(await host.call("box.who").result())) for _ in range(4)]
                assert len({one["pid"] for one in told}) == 1
        async with httpx2.AsyncClient(verify=trust, base_url=served.url) as client:
            assert (await client.get("/healthz")).json() == {"status": "ok"}
            asked = await client.get("/console/sign-in", headers={"accept": "text/html"}, follow_redirects=True)
            assert asked.status_code in (200, 401)
        # What is no TLS ends the connection, and nothing else.
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(served.url).port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(BOUND):
            assert b"200" not in await reader.read()
        writer.close()
        assert await shown(served.url, trust, "localhost") == "localhost"
    log = "".join(served.log)
    assert "for localhost, 127.0.0.1, valid until" in log
    assert "Traceback" not in log


async def test_a_certificate_that_is_swapped_is_taken(tmp_path: Path, authority: Authority) -> None:
    """As Kubernetes replaces a secret. A connection that is open stays; a broken pair changes nothing."""
    folder = mounted(tmp_path / "tls", authority, "..1", "one.example")
    config = write_config(tmp_path, {}, http=settings(folder), storage=f"sqlite:///{tmp_path}/a.db")
    trust = authority.trust()
    async with serving(config) as served, httpx2.AsyncClient(verify=trust, base_url=served.url) as before:
        assert (await before.get("/healthz")).status_code == 200
        assert await shown(served.url, trust, "one.example") == "one.example"
        mounted(folder, authority, "..2", "two.example")
        await until(lambda: "for two.example" in "".join(served.log), "the new certificate is in force")
        # By name, by address, which sends no name, and on the connection from before.
        assert await shown(served.url, trust, "two.example") == "two.example"
        assert await shown(served.url, trust, "127.0.0.1") == "two.example"
        assert (await before.get("/healthz")).status_code == 200
        (folder / "..2" / "tls.key").write_text("no key")
        await until(lambda: "the certificate in force stays" in "".join(served.log), "the fault is told")
        assert await shown(served.url, trust, "two.example") == "two.example"
        assert (await before.get("/healthz")).status_code == 200
    log = "".join(served.log)
    assert f"{folder / 'tls.key'} holds no private key in PEM" in log
    assert "`key` in http.tls" in log


async def test_clients_show_a_certificate_where_they_must(tmp_path: Path, authority: Authority) -> None:
    """Without one only the health pages answer, so that probes work; one of another authority gets no connection."""
    folder = mounted(tmp_path / "tls", authority, "..1", "localhost")
    people, strangers = Authority(tmp_path / "ca", "people"), Authority(tmp_path / "ca", "strangers")
    config = write_config(
        tmp_path,
        {"box": server()},
        http=settings(folder, client_ca=str(people.file)),
        storage=f"sqlite:///{tmp_path}/a.db",
    )
    async with serving(config) as served:
        known = authority.trust(people.give(tmp_path / "ada", "ada"))
        async with over_http(served.url, MODERN, tls=known) as host:
            assert [words(await host.call("box.who").result()) for _ in range(3)]
        async with httpx2.AsyncClient(verify=authority.trust(), base_url=served.url) as client:
            assert [(await client.get(path)).status_code for path in ("/healthz", "/readyz")] == [200, 200]
            for method, path in (("POST", "/mcp"), ("GET", "/"), ("GET", "/metrics"), ("GET", "/console/")):
                refused = await client.request(method, path)
                assert refused.status_code == 403
                assert "http.tls.client_ca" in refused.text
        other = authority.trust(strangers.give(tmp_path / "eve", "eve"))
        async with httpx2.AsyncClient(verify=other, base_url=served.url) as client:
            with pytest.raises(httpx2.TransportError):
                await client.get("/healthz")
    assert "Traceback" not in "".join(served.log)


async def test_our_own_commands_find_the_gateway_by_its_certificate(tmp_path: Path, authority: Authority) -> None:
    """`status` and `status --ready` trust the certificate of the configuration, whatever name it has, and no other."""
    folder = mounted(tmp_path / "tls", authority, "..1", "tools.example")
    reader = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = reader.sockets[0].getsockname()[1]
    reader.close()
    await reader.wait_closed()
    http = {**settings(folder), "port": port}
    config = write_config(tmp_path, {}, http=http, storage=f"sqlite:///{tmp_path}/a.db")
    assert (await run("status", "--ready", "--config", str(config))).code == 69
    async with serving(config, "--port", str(port)):
        told = await run("status", "--config", str(config))
        assert told.out.startswith(f"https://127.0.0.1:{port}: ready, 0 servers")
        told = await run("status", "--ready", "--config", str(config))
        assert (told.code, told.out) == (0, f"https://127.0.0.1:{port}: ready\n")
        named = await run("status", "--url", f"https://127.0.0.1:{port}")
        assert named.code == 69
        assert "certificate" in named.out
        link = (await run("console", "--no-browser", "--config", str(config))).out.strip()
        assert link.startswith(f"https://127.0.0.1:{port}/console/enter/")
        async with httpx2.AsyncClient(verify=authority.trust()) as client:
            entered = await client.post(link, headers={"origin": f"https://127.0.0.1:{port}", **FORM})
            assert entered.status_code == 303, entered.text
            assert "; Secure" in entered.headers["set-cookie"]
            # A page of the same name over plain HTTP is another one.
            again = await client.post(f"{link}x", headers={"origin": f"http://127.0.0.1:{port}", **FORM})
            assert again.status_code == 403
    installed = await run("install", "claude-code", "--http", "--config", str(config), HOME=str(tmp_path), cwd=tmp_path)
    assert f"https://127.0.0.1:{port}/mcp" in installed.out, installed


def _broken(folder: Path, authority: Authority, fault: str) -> TlsConfig:
    certificate, key = authority.give(folder, password="sesame" if "password" in fault else None)
    chosen = {"certificate": str(certificate), "key": str(key)}
    match fault:
        case "no file":
            chosen["key"] += ".away"
        case "a folder":
            chosen["certificate"] = str(folder)
        case "no PEM":
            certificate.write_text("hello")
        case "no key":
            key.write_text("hello")
        case "another key":
            chosen["key"] = str(authority.give(folder / "other")[1])
        case "wrong password":
            chosen["key_password"] = "open"
        case "no authority":
            chosen["client_ca"] = str(key)
    return TlsConfig.model_validate(chosen)


@pytest.mark.parametrize(
    ("fault", "named", "fix"),
    [
        ("no file", "tls.key.away", "`key`"),
        ("a folder", "it is a folder", "`certificate`"),
        ("no PEM", "tls.crt", "`certificate`"),
        ("no key", "holds no private key", "`key`"),
        ("another key", "is not that of the certificate", "`key` and `certificate`"),
        ("no password", "is encrypted", "set `key_password`"),
        ("wrong password", "cannot be opened", "correct `key_password`"),
        ("no authority", "holds no certificate authority", "`client_ca`"),
    ],
)
def test_a_fault_names_the_file_and_the_fix(
    tmp_path: Path, authority: Authority, fault: str, named: str, fix: str
) -> None:
    broken = _broken(tmp_path, authority, fault)
    with pytest.raises(OperatorError) as refused:
        server_context(broken)
    said = str(refused.value)
    assert str(tmp_path) in said
    assert named in said
    assert f"{fix} in http.tls" in said
    assert "sesame" not in said


def test_old_versions_of_tls_are_refused(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.give(tmp_path, password="sesame")
    made = server_context(TlsConfig(certificate=str(certificate), key=str(key), key_password="sesame"))
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(("days", "problem"), [(30, False), (3, False), (-1, True)])
def test_the_end_of_a_certificate_is_known(tmp_path: Path, authority: Authority, days: int, problem: bool) -> None:
    """A gateway starts with one that has ended, and says so: hosts that do not look at it go on."""
    certificate, key = authority.give(tmp_path, days=days)
    facts = facts_of(server_context(TlsConfig(certificate=str(certificate), key=str(key))), str(certificate))
    assert (facts.problem is not None) == problem
    if problem:
        assert "expired" in str(facts)
    else:
        assert facts.names == ("localhost", "127.0.0.1")
        now = certificate.stat().st_mtime
        assert facts.ends_soon(now) == (days == 3)


@pytest.mark.parametrize(
    "section",
    [
        {"certificate": "tls.crt"},
        {"certificate": "tls.crt", "key": ""},
        {"certificate": "tls.crt", "key": "tls.key", "cert": "x"},
        {"certificate": "tls.crt", "key": "tls.key", "key_password": "${NO_SUCH_VARIABLE}"},
        "tls.crt",
        [],
    ],
)
def test_nothing_starts_without_the_tls_that_is_asked_for(tmp_path: Path, section: Any) -> None:
    """A section with a fault would leave plain HTTP in its place."""
    loaded = load(write_config(tmp_path, {}, http={"tls": section}), dict(os.environ))
    with pytest.raises(OperatorError) as refused:
        must_start(loaded)
    assert "http.tls" in str(refused.value)
    assert "default is used" not in str(refused.value)


def test_paths_are_those_of_the_folder_of_the_file(tmp_path: Path) -> None:
    section = {"certificate": "tls/tls.crt", "key": "~/tls.key", "key_password": "a secret", "client_ca": "/ca"}
    loaded = load(write_config(tmp_path, {}, http={"tls": section}), dict(os.environ))
    assert not loaded.fatal
    assert loaded.tls is not None
    assert loaded.tls.certificate == str(tmp_path / "tls" / "tls.crt")
    assert loaded.tls.key == os.path.expanduser("~/tls.key")
    assert loaded.tls.client_ca == "/ca"
    assert "a secret" in loaded.hidden
    assert "a secret" not in repr(loaded)
