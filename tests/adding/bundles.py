"""MCPB files made for tests, with real servers in them."""

import io
import json
import stat
import zipfile
from pathlib import Path
from typing import Any

Json = dict[str, Any]

# A server of one tool on plain JSON-RPC lines, in Python and in JavaScript: `say` returns what it was started with.
PYTHON = """
import json, os, sys

def tool():
    return {"name": "say", "description": "Say it", "inputSchema": {"type": "object"}}

for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), {}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "bundle", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [tool()]}
    elif method == "tools/call":
        said = {"args": sys.argv[1:], "env": os.environ.get("BUNDLE_WORD"), "cwd": os.getcwd()}
        result = {"content": [{"type": "text", "text": json.dumps(said)}]}
    elif method not in ("ping",):
        if "id" in message:
            error = {"code": -32601, "message": "no such method"}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
NODE = """
const lines = require('readline').createInterface({ input: process.stdin });
const tool = { name: 'say', description: 'Say it', inputSchema: { type: 'object' } };
lines.on('line', (line) => {
  const message = JSON.parse(line);
  if (message.id === undefined) return;
  const send = (body) => console.log(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...body }));
  const said = { args: process.argv.slice(2), env: process.env.BUNDLE_WORD, cwd: process.cwd() };
  if (message.method === 'initialize') {
    const info = { name: 'bundle', version: '1' };
    send({ result: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: info } });
  } else if (message.method === 'tools/list') send({ result: { tools: [tool] } });
  else if (message.method === 'tools/call') {
    send({ result: { content: [{ type: 'text', text: JSON.stringify(said) }] } });
  }
  else if (message.method === 'ping') send({ result: {} });
  else send({ error: { code: -32601, message: 'no such method' } });
});
"""


def manifest(**fields: Any) -> Json:
    """A manifest of a Python server with a folder, a word and a secret to be asked for."""
    return {
        "manifest_version": "0.3",
        "name": "say-it",
        "version": "1.0.0",
        "description": "Says it",
        "author": {"name": "A"},
        "server": {
            "type": "python",
            "entry_point": "server/main.py",
            "mcp_config": {
                "command": "python",
                "args": ["${__dirname}/server/main.py", "${user_config.folders}", "--word=${user_config.word}"],
                "env": {"BUNDLE_WORD": "${user_config.key}"},
            },
        },
        "user_config": {
            "folders": {
                "type": "directory",
                "title": "Folders",
                "description": "Where to look",
                "multiple": True,
                "required": True,
            },
            "word": {"type": "string", "title": "Word", "description": "A word"},
            "key": {"type": "string", "title": "Key", "description": "A key", "sensitive": True},
        },
        **fields,
    }


def bundle(*files: tuple[str | zipfile.ZipInfo, bytes], **fields: Any) -> bytes:
    """A bundle with this manifest, the Python server, and more files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest(**fields)))
        archive.writestr("server/main.py", PYTHON)
        for name, content in files:
            archive.writestr(name, content)
    return packed.getvalue()


def node_bundle() -> bytes:
    """An old `.dxt` file with the JavaScript server."""
    server = {
        "type": "node",
        "entry_point": "server/index.js",
        "mcp_config": {"command": "node", "args": ["${__dirname}/server/index.js"]},
    }
    fields = {"dxt_version": "0.1", "name": "node-say", "version": "2.0", "server": server, "user_config": {}}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("manifest.json", json.dumps(fields))
        archive.writestr("server/index.js", NODE)
    return packed.getvalue()


def entry(name: str, mode: int = 0o644, kind: int = stat.S_IFREG) -> zipfile.ZipInfo:
    """The head of a file in an archive, with its kind and mode."""
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | mode) << 16
    return info


def files_in(folder: Path) -> set[str]:
    """The paths of all there is in a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
