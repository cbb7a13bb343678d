"""Sentences about single hosts: when each takes a change of its file over, and where it shows our entry."""

from typing import Final

_NEXT: Final = {
    "claude-desktop": "Quit Claude Desktop, its icon in the menu bar or tray included, and start it again.",
    "claude-code": "Start a new session of Claude Code.",
    "cursor": "Restart Cursor, or switch the entry off and on in its settings under MCP.",
    "vscode": "Run `MCP: List Servers` in VS Code and restart the entry there.",
    "vscode-insiders": "Run `MCP: List Servers` in VS Code and restart the entry there.",
    "windsurf": "Press Refresh in the MCP settings of Windsurf, or restart it.",
    "cline": "Cline takes its file over when it is saved; else restart the editor.",
    "roo-code": "Roo Code takes its file over when it is saved; else restart the editor.",
    "codex": "Start a new session of Codex.",
    "gemini-cli": "Start Gemini CLI again.",
    "zed": "Zed takes its settings over when they are saved.",
    "continue": "Reload the window of the editor.",
    "goose": "Start a new session of Goose.",
    "lm-studio": "Restart LM Studio, or switch the entry off and on in its Program tab.",
    "copilot-cli": "Start Copilot CLI again.",
}
_SHOWN: Final = {
    "claude-code": "`claude mcp list` shows whether it connects. With `alwaysLoad` in our entry it waits for us, and "
    "has our definitions from the first turn; `expose: search` keeps them few.",
    "vscode": "It asks whether you trust the entry.",
    "vscode-insiders": "It asks whether you trust the entry.",
    "codex": "`codex mcp list` shows the entry.",
    "gemini-cli": "`gemini mcp list` shows whether it connects, in a folder that Gemini CLI trusts.",
    "copilot-cli": "`copilot mcp list` shows the entry.",
}


def next_step(host: str, title: str) -> str:
    """Return what a person does for the host to take its file over."""
    return _NEXT.get(host, f"Restart {title}.")


def after_install(host: str, title: str) -> str:
    """Return what a person does after an install, and where the host shows our entry."""
    return f"{next_step(host, title)} {_SHOWN.get(host, '')}".rstrip()
