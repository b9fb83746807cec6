"""The memory tools and recall for clients of MCP, such as Claude Code, VS Code, Cursor and Codex.

The command `agent-memory mcp` starts it; `memory_semantic` knows nothing of it. Importing this
loads nothing heavy: the SDK is imported by `server`.
"""
