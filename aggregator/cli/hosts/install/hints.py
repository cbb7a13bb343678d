"""Sentences about single hosts: when each takes a change of its file over."""

from typing import Final

_NEXT: Final = {
    "claude-desktop": "Quit Claude Desktop, its icon in the menu bar or tray included, and start it again.",
    "claude-code": "Start a new session of Claude Code; `claude mcp list` shows the entry.",
    "cursor": "Restart Cursor, or switch the entry on in its settings under MCP.",
    "vscode": "In VS Code run `MCP: List Servers`, start the entry and say that you trust it.",
    "vscode-insiders": "In VS Code run `MCP: List Servers`, start the entry and say that you trust it.",
    "windsurf": "Press Refresh in the MCP settings of Windsurf, or restart it.",
    "cline": "Cline takes its file over when it is saved; else restart the editor.",
    "roo-code": "Roo Code takes its file over when it is saved; else restart the editor.",
    "codex": "Start a new session of Codex; `codex mcp list` shows the entry.",
    "gemini-cli": "Start Gemini CLI again; `gemini mcp list` shows the entry.",
    "zed": "Zed takes its settings over when they are saved.",
    "continue": "Reload the window of the editor.",
    "goose": "Start a new session of Goose.",
    "lm-studio": "Open the Program tab of LM Studio and switch the entry on, or restart it.",
    "copilot-cli": "Start Copilot CLI again; `/mcp show` shows the entry.",
}


def next_step(host: str, title: str) -> str:
    """Return what a person does for the host to take its file over."""
    return _NEXT.get(host, f"Restart {title}.")
