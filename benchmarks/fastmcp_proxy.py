"""FastMCP's own proxy over the same servers: one mount for each, its connections kept open.

Run with an interpreter that has `fastmcp`: `PYTHON fastmcp_proxy.py CONFIG stdio|PORT`.
"""

import json
import sys
from pathlib import Path

from fastmcp import FastMCP  # type: ignore[import-not-found, unused-ignore]
from fastmcp.server import create_proxy  # type: ignore[import-not-found, unused-ignore]


def main(config: str, frontend: str) -> None:
    """Serve every server of the configuration at one endpoint."""
    gateway = FastMCP("benchmark")
    for name, server in json.loads(Path(config).read_text())["mcpServers"].items():
        gateway.mount(create_proxy({"mcpServers": {name: server}}), namespace=name)
    if frontend == "stdio":
        gateway.run(transport="stdio", show_banner=False)
    else:
        quiet = {"access_log": False, "log_level": "warning"}
        gateway.run(transport="http", port=int(frontend), path="/mcp", show_banner=False, uvicorn_config=quiet)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
