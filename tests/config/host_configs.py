"""Configuration files as the hosts' own documentation has them. None of them may cost a word."""

from typing import Any

CLAUDE_DESKTOP: dict[str, Any] = {
    "globalShortcut": "Ctrl+Space",
    "preferences": {"menuBarEnabled": False},
    "mcpServers": {
        "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada"],
        },
        "github": {
            "command": "docker",
            "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"],
            "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "<YOUR_TOKEN>"},
        },
    },
}
CLAUDE_CODE: dict[str, Any] = {
    "mcpServers": {
        "api": {
            "type": "http",
            "url": "${API_BASE_URL:-https://api.example.com}/mcp",
            "headers": {"Authorization": "Bearer ${API_KEY}"},
        },
        "old": {"type": "sse", "url": "https://mcp.example.com/sse", "headersHelper": "/opt/bin/headers.sh"},
        "db": {"type": "stdio", "command": "${HOME}/bin/db", "args": [], "env": {}, "oauth": {"clientId": "x"}},
    }
}
VS_CODE: dict[str, Any] = {
    "inputs": [
        {"type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": True},
        {"type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu"},
    ],
    "servers": {
        "Perplexity": {
            "type": "stdio",
            "command": "docker",
            "args": ["run", "-i", "--rm", "-e", "PERPLEXITY_API_KEY", "mcp/perplexity-ask"],
            "env": {"PERPLEXITY_API_KEY": "${input:perplexity-key}", "REGION": "${input:region}", "UNSET": None},
        },
        "fetch": {
            "command": "uvx",
            "args": ["mcp-server-fetch"],
            "cwd": "${workspaceFolder}",
            "dev": {"watch": "**"},
        },
        "github": {"type": "http", "url": "https://api.githubcopilot.com/mcp/", "gallery": True, "version": "1.0.0"},
        "files": {"command": "node", "args": ["${workspaceFolder}/s.js"], "envFile": "${workspaceFolder}/.env"},
    },
}
CURSOR: dict[str, Any] = {
    "mcpServers": {
        "server-name": {"command": "npx", "args": ["-y", "mcp-server"], "env": {"API_KEY": "${env:API_KEY}"}},
        "remote": {"url": "http://localhost:3000/mcp", "headers": {"API_KEY": "value"}},
        "static": {"url": "https://api.example.com/mcp", "auth": {"CLIENT_ID": "${env:API_KEY}", "scopes": ["read"]}},
        "local": {"command": "python", "args": ["${workspaceFolder}/tools/mcp_server.py"], "envFile": ".env"},
    }
}
WINDSURF: dict[str, Any] = {
    "mcpServers": {
        "remote": {"serverUrl": "https://mcp.example.com/mcp", "headers": {"API_KEY": "Bearer ${env:API_KEY}"}},
        "local": {"command": "npx", "args": ["-y", "x"], "disabled": False, "disabledTools": ["delete_all"]},
    }
}
CLINE_AND_ROO: dict[str, Any] = {
    "mcpServers": {
        "off": {"command": "node", "args": ["s.js"], "alwaysAllow": ["a"], "disabled": True, "timeout": 60},
        "remote": {"type": "streamableHttp", "url": "https://a.example/mcp", "autoApprove": [], "disabled": False},
        "roo": {"type": "streamable-http", "url": "https://a.example/mcp", "watchPaths": ["a"], "disabledTools": ["b"]},
        "sse": {"transportType": "sse", "url": "https://a.example/sse"},
    }
}
GEMINI: dict[str, Any] = {
    "mcpServers": {
        "http": {"httpUrl": "https://a.example/mcp", "trust": True, "includeTools": ["a", "b"], "excludeTools": ["b"]},
        "described": {"command": "python", "args": ["-m", "s"], "cwd": "./s", "description": "My server"},
    }
}
COPILOT: dict[str, Any] = {"mcpServers": {"play": {"type": "stdio", "command": "npx", "args": ["p"], "tools": ["*"]}}}
CHERRY_STUDIO: dict[str, Any] = {
    "mcpServers": {
        "x1": {
            "name": "amap-maps",
            "type": "streamableHttp",
            "isActive": True,
            "baseUrl": "https://a.example/mcp",
            "command": "",
            "args": [],
            "env": {},
            "provider": "x",
            "tags": [],
        }
    }
}
EVERYONE = {
    "Claude Desktop": CLAUDE_DESKTOP,
    "Claude Code": CLAUDE_CODE,
    "VS Code": VS_CODE,
    "Cursor": CURSOR,
    "Windsurf": WINDSURF,
    "Cline and Roo Code": CLINE_AND_ROO,
    "Gemini CLI": GEMINI,
    "GitHub Copilot": COPILOT,
    "Cherry Studio": CHERRY_STUDIO,
}
ENVIRON = {"API_KEY": "key-1", "PERPLEXITY_KEY": "key-2", "HOME": "/home/ada"}
