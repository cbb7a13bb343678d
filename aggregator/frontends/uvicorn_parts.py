"""The HTTP server of uvicorn without its command line and its own worker processes: 1.6 MiB of memory, and half of the
time that its import takes.

Rule: everything in the package takes these names from here.
"""

import sys
from typing import TYPE_CHECKING

from aggregator.domain.bare_package import import_alone

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
    from uvicorn.server import Server
else:
    _config, _server, _http = import_alone("uvicorn", "config", "server", "protocols.http.httptools_impl")
    Config, Server = _config.Config, _server.Server
    STATUS_LINE, HttpToolsProtocol = _http.STATUS_LINE, _http.HttpToolsProtocol
    RequestResponseCycle = _http.RequestResponseCycle
    # Modules that are loaded later take it from the package.
    vars(sys.modules["uvicorn"])["Config"] = Config

__all__ = ["STATUS_LINE", "Config", "HttpToolsProtocol", "RequestResponseCycle", "Server"]
