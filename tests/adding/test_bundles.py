"""MCPB bundles: what is read of them, how they are unpacked, and which are refused."""

import io
import json
import shutil
import stat
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.packages import bundle_archive
from aggregator.packages.bundle_archive import read_archive, read_archive_file
from aggregator.packages.bundle_manifest import bundle_plan, read_manifest
from aggregator.packages.bundle_signature import check_signature, split_signature
from aggregator.packages.errors import PackageError
from aggregator.packages.plan import literal
from tests import ON_WINDOWS
from tests.adding.bundles import bundle, entry, files_in, manifest
from tests.adding.descriptions import ANY_JSON, Json
from tests.laws import examples

FOLDER = Path("/bundles/say-it-1.0.0")


def plan_entry(answers: dict[str, list[str]], **fields: Any) -> dict[str, Any]:
    read = read_manifest(json.dumps(manifest(**fields)).encode(), "it.mcpb")
    return bundle_plan(read, FOLDER).entry(answers)


def test_the_entry_of_a_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert plan_entry({"folders": ["/a", "/b"], "key": ["${KEY}"]}) == {
        "command": "python",
        "args": [f"{FOLDER}/server/main.py", "/a", "/b"],
        "env": {"BUNDLE_WORD": "${KEY}"},
        "cwd": str(FOLDER),
        "description": "Says it",
    }
    assert plan_entry({"word": ["hi"]})["args"][1:] == ["${FOLDERS}", "--word=hi"]
    assert "env" not in plan_entry({})


def test_python_is_found_by_the_name_that_it_has_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/python3" if name == "python3" else None)
    assert plan_entry({})["command"] == "python3"


@pytest.mark.parametrize(
    ("server", "command"),
    [
        ({"type": "uv", "entry_point": "src/s.py"}, f"uv run --directory {FOLDER} {FOLDER}/src/s.py"),
        ({"type": "node", "entry_point": "a.js"}, f"node {FOLDER}/a.js"),
        ({"type": "binary", "entry_point": "bin/x"}, f"{FOLDER}/bin/x"),
        (
            {"type": "binary", "entry_point": "bin/x", "mcp_config": {"command": "bin/x", "args": ["--c", "c.json"]}},
            f"{FOLDER}/bin/x --c c.json",
        ),
        (
            {"type": "binary", "entry_point": "x", "mcp_config": {"command": "${__dirname}/x", "args": ["a${/}b"]}},
            f"{FOLDER}/x a/b",
        ),
        (
            {
                "type": "node",
                "entry_point": "a.js",
                "mcp_config": {
                    "command": "node",
                    "args": ["a.js"],
                    "platform_overrides": {"win32" if ON_WINDOWS else sys.platform: {"args": ["b.js"]}},
                },
            },
            "node b.js",
        ),
    ],
)
def test_programs_of_manifests(server: Json, command: str) -> None:
    made = plan_entry({}, server=server)
    assert " ".join([made["command"], *made.get("args", [])]) == command


PROXY = {"proxy": {"type": "string", "title": "Proxy"}, "dirs": {"type": "directory", "multiple": True}}


@pytest.mark.parametrize(
    ("args", "answers", "made", "left_out"),
    [
        (["a", "--proxy", "${user_config.proxy}", "-v"], {}, "a -v", ["--proxy: proxy"]),
        (["a", "--proxy", "${user_config.proxy}", "-v"], {"proxy": ["p"]}, "a --proxy p -v", []),
        (["a", "--proxy", "${user_config.proxy}", "-v"], {"proxy": [""]}, "a --proxy  -v", []),
        (["a", "-e", "PROXY=${user_config.proxy}"], {}, "a", ["-e: proxy"]),
        (["a", "--dirs", "${user_config.dirs}"], {}, "a", ["--dirs: dirs"]),
        (["a", "--dirs", "${user_config.dirs}"], {"dirs": ["x", "y"]}, "a --dirs x y", []),
        (["--a", "${user_config.proxy}", "--b", "${user_config.proxy}"], {}, "", ["--a: proxy", "--b: proxy"]),
        # What is no option of its own stays: an end of options, a value, and a flag before another option.
        (["a", "--", "${user_config.proxy}", "z"], {}, "a -- z", ["an argument: proxy"]),
        (["a", "${user_config.proxy}", "z"], {}, "a z", ["an argument: proxy"]),
        (["--x=1", "${user_config.proxy}"], {}, "--x=1", ["an argument: proxy"]),
        (["-v", "--proxy=${user_config.proxy}", "z"], {}, "-v z", ["--proxy: proxy"]),
        (["-v", "1", "${user_config.proxy}"], {}, "-v 1", ["an argument: proxy"]),
        # What the manifest does not declare is no text for the server.
        (["a", "--x", "${user_config.none}", "z"], {}, "a z", ["--x: none"]),
        (["a", "--x", "${user_config.none}"], {"none": ["n"]}, "a --x n", []),
        (["-p", "${user_config.proxy}", "${user_config.proxy}"], {}, "", ["-p: proxy", "an argument: proxy"]),
    ],
)
def test_an_option_goes_with_its_value(args: list[str], answers: Any, made: str, left_out: list[str]) -> None:
    server = {"type": "node", "entry_point": "a.js", "mcp_config": {"command": "node", "args": args}}
    read = read_manifest(json.dumps(manifest(server=server, user_config=PROXY)).encode(), "it.mcpb")
    plan = bundle_plan(read, FOLDER)
    entry: dict[str, Any] = plan.entry(answers)
    assert " ".join(entry.get("args", [])) == made
    assert list(plan.left_out(answers)) == [f"It is started without {one} has no value." for one in left_out]


def test_an_option_stays_if_its_value_is_required_or_has_a_default() -> None:
    for more, value in (({"required": True}, "${PROXY}"), ({"default": "p"}, "p")):
        asked = {"proxy": {"type": "string", "title": "Proxy", **more}}
        config = {"command": "node", "args": ["--proxy", "${user_config.proxy}"]}
        server = {"type": "node", "entry_point": "a.js", "mcp_config": config}
        assert plan_entry({}, server=server, user_config=asked)["args"] == ["--proxy", value]


def test_variables_of_this_machine_stay_unread() -> None:
    config = {"command": "node", "args": ["${AWS_SECRET}", "${HOME}"], "env": {"A": "${file:/etc/passwd}"}}
    made = plan_entry({}, server={"type": "node", "entry_point": "a.js", "mcp_config": config})
    assert made["args"] == ["${$}{AWS_SECRET}", str(Path.home())]
    assert made["env"] == {"A": "${$}{file:/etc/passwd}"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"server": {"type": "ruby", "entry_point": "x"}}, "for a runtime 'ruby'"),
        ({"server": 3}, "without `name` or `server`"),
        ({"name": ""}, "without `name` or `server`"),
        ({"compatibility": {"platforms": ["amiga"]}}, "for amiga, and this machine is"),
        ({"server": {"type": "node", "entry_point": "../../x.js"}}, "outside of the bundle"),
        ({"server": {"type": "node", "entry_point": "/etc/x.js"}}, "outside of the bundle"),
        ({"server": {"type": "binary", "entry_point": "x", "mcp_config": {"command": "../../bin/sh"}}}, "outside"),
        ({"server": {"type": "node", "entry_point": "x", "mcp_config": {"command": "${__dirname}/../sh"}}}, "outside"),
    ],
)
def test_manifests_that_are_refused(fields: Json, why: str) -> None:
    with pytest.raises(PackageError, match=why):
        plan_entry({}, **fields)


@pytest.mark.parametrize(
    ("fields", "noted"),
    [
        *[({"manifest_version": known}, False) for known in ("0.1", "0.2", "0.3", "0.4")],
        ({"manifest_version": "", "dxt_version": "0.1"}, False),
        ({"manifest_version": "0.5"}, True),
        ({"manifest_version": 1}, True),
        ({"manifest_version": ""}, True),
    ],
)
def test_a_manifest_of_another_version_is_read_with_a_note(fields: Json, noted: bool) -> None:
    read = read_manifest(json.dumps(manifest(**fields)).encode(), "it.mcpb")
    assert ["Its manifest has the version" in note for note in read.notes] == [True] * noted


@given(
    ANY_JSON | st.fixed_dictionaries({}, optional={key: ANY_JSON for key in manifest()}).map(lambda m: manifest(**m))
)
def test_any_json_is_a_manifest_or_is_refused(root: Any) -> None:
    with suppress(PackageError):
        bundle_plan(read_manifest(json.dumps(root).encode(), "it.mcpb"), FOLDER).entry({})


def unpacked(content: bytes, tmp_path: Path) -> Path:
    folder = tmp_path / "bundles" / "it"
    read_archive(content, "it.mcpb").unpack(folder)
    return folder


@pytest.mark.skipif(ON_WINDOWS, reason="Windows lets few users make links, and has no modes")
def test_a_bundle_is_unpacked_with_modes_and_links_inside(tmp_path: Path) -> None:
    files = [
        (entry("bin/run", 0o4777), b"#!/bin/sh"),
        (entry("data/a.txt", 0o600), b"a"),
        (entry("data/link", kind=stat.S_IFLNK), b"../bin/run"),
        (entry("empty/", 0o755, stat.S_IFDIR), b""),
    ]
    folder = unpacked(bundle(*files), tmp_path)
    assert files_in(folder) == {
        *("bin", "bin/run", "data", "data/a.txt", "data/link", "empty", "manifest.json", "server", "server/main.py")
    }
    assert stat.S_IMODE((folder / "bin" / "run").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "data" / "a.txt").stat().st_mode) == 0o644
    assert (folder / "data" / "link").read_text() == "#!/bin/sh"
    assert [path.name for path in folder.parent.iterdir()] == ["it"]


@pytest.mark.parametrize(
    "file",
    [
        entry("../out.txt"),
        entry("a/../../out.txt"),
        entry("/out.txt"),
        entry("a//b"),
        entry("./a"),
        entry("C:/out.txt"),
        entry("a\x1b[2J"),
        entry("MANIFEST.JSON"),
        entry("Server/main.PY"),
        entry("server"),
        entry("server/main.py/x"),
        entry("x" * 300),
        entry("/".join("abcdefgh" * 10)),
        entry("pipe", kind=stat.S_IFIFO),
        entry("device", kind=stat.S_IFCHR),
    ],
    ids=lambda info: ascii(info.filename[:20]),
)
def test_archives_that_are_refused_before_anything_is_written(file: zipfile.ZipInfo, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="It is refused"):
        unpacked(bundle((file, b"x")), tmp_path)
    assert not files_in(tmp_path)


def test_a_backslash_leads_nowhere(tmp_path: Path) -> None:
    name = "..\\out.txt"
    content = bundle(("..|out.txt", b"x")).replace(b"..|out.txt", name.encode())
    with pytest.raises(PackageError, match="lead elsewhere"):
        unpacked(content, tmp_path)


@pytest.mark.parametrize(
    "target",
    ["/etc/passwd", "../../out", "..", ".", "", "a/../../../out", "inner/..", "x\\y", "../../../../../../etc"],
)
def test_links_that_lead_out_are_refused(target: str, tmp_path: Path) -> None:
    content = bundle((entry("data/link", kind=stat.S_IFLNK), target.encode()))
    with pytest.raises(PackageError, match="which Windows lets few users make" if ON_WINDOWS else "leads out of it"):
        unpacked(content, tmp_path)
    assert not [path for path in files_in(tmp_path) if path != "bundles"]


def test_a_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    content = bundle((entry("data", kind=stat.S_IFLNK), str(outside).encode()), ("data/x", b"x"))
    with pytest.raises(PackageError, match="refused"):
        unpacked(content, tmp_path)
    assert not files_in(outside)


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PackageError, match="times its size"):
        unpacked(bundle(("zeros", bytes(40 * 2**20))), tmp_path)
    monkeypatch.setattr(bundle_archive, "LARGEST_CONTENT", 10_000)
    with pytest.raises(PackageError, match="more than 0 MiB"):
        unpacked(bundle(("zeros", bytes(20_000))), tmp_path)
    monkeypatch.setattr(bundle_archive, "MOST_FILES", 3)
    with pytest.raises(PackageError, match="more than 3 files"):
        unpacked(bundle(("a", b""), ("b", b"")), tmp_path)


def test_a_file_that_is_larger_than_it_says(tmp_path: Path) -> None:
    """The size in the archive is a promise of whoever made it."""
    content = bytearray(bundle((entry("big"), b"x" * 5_000)))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        info = archive.getinfo("big")
    for place in (info.header_offset + 22, content.rfind(b"PK\x01\x02") + 24):
        content[place : place + 4] = (10).to_bytes(4, "little")
    with pytest.raises(PackageError, match="damaged"):
        unpacked(bytes(content), tmp_path)
    assert not [path for path in files_in(tmp_path) if path != "bundles"]


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_is_refused_or_unpacked(data: st.DataObject, tmp_path: Path) -> None:
    content = bytearray(bundle((entry("data/link", kind=stat.S_IFLNK), b"../server"), ("a/b", b"x" * 300)))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path / "bundles" / "it"
    with suppress(PackageError):
        archive = read_archive(bytes(content), "it.mcpb")
        read_manifest(archive.manifest(), "it.mcpb")
        archive.unpack(folder)
    assert not [path for path in files_in(tmp_path) if not (path == "bundles" or path.startswith("bundles/it"))]
    shutil.rmtree(tmp_path / "bundles", ignore_errors=True)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a bundle", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_bundle(content: bytes) -> None:
    with pytest.raises(PackageError, match="bundle"):
        read_archive(content, "it.mcpb").manifest()


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PackageError, match="No such file"):
        read_archive_file(tmp_path / "none.mcpb")
    with pytest.raises(PackageError, match="not an ordinary file"):
        read_archive_file(tmp_path)
    monkeypatch.setattr("aggregator.packages.bundle_archive.LARGEST_FILE", 2**20)
    large = tmp_path / "large.mcpb"
    large.write_bytes(bytes(2**20 + 1))
    with pytest.raises(PackageError, match="larger than 1 MiB"):
        read_archive_file(large)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "cert", "-days", "9"]
    subprocess.run([*made, "-subj", "/CN=Ada Example"], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def signed(content: bytes, certificate: Path) -> bytes:
    (certificate / "archive").write_bytes(content)
    sign = ["openssl", "cms", "-sign", "-binary", "-in", "archive", "-signer", "cert", "-inkey", "key"]
    subprocess.run([*sign, "-outform", "DER", "-out", "sig"], cwd=certificate, check=True, capture_output=True)
    made = (certificate / "sig").read_bytes()
    return content + b"MCPB_SIG_V1" + len(made).to_bytes(4, "little") + made + b"MCPB_SIG_END"


def test_signatures(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bundle()
    whole = signed(content, certificate)
    archive = read_archive(whole, "it.mcpb")
    assert archive.content == content
    assert b"say-it" in archive.manifest()
    checked = check_signature(archive.content, archive.signature)
    assert str(checked) == "signed by Ada Example, with a certificate that this system does not trust"
    with pytest.raises(PackageError, match="changed after it was signed"):
        check_signature(content + b"x", archive.signature)
    with pytest.raises(PackageError, match="changed after it was signed"):
        check_signature(content, b"nonsense")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
    assert str(check_signature(archive.content, archive.signature)) == "signed by Ada Example"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert check_signature(archive.content, archive.signature).state == "unchecked"
    assert str(check_signature(content, None)) == "not signed"


@given(st.binary(max_size=60), st.integers(0, 2**32 - 1))
def test_any_end_of_a_file_is_a_signature_or_none(between: bytes, length: int) -> None:
    content = b"PK" + between + b"MCPB_SIG_V1" + length.to_bytes(4, "little") + between + b"MCPB_SIG_END"
    archive, signature = split_signature(content)
    assert (archive, signature) in ((content, None), (b"PK" + between, between))


@given(st.text())
def test_a_folder_name_stays_in_its_folder(name: str) -> None:
    fields = manifest(name=name or "x", version=name)
    with suppress(PackageError):
        folder = read_manifest(json.dumps(fields).encode(), "it.mcpb").folder
        assert "/" not in folder
        assert "\\" not in folder
        assert not folder.startswith(".")
        assert literal(folder) == folder
