"""The memory tools and recall for clients of MCP and their hooks, such as Claude Code and Codex.

The commands `agent-memory mcp` and `agent-memory hook` start it; `memory_semantic` knows nothing of
it. Importing this loads nothing heavy; `Handlers.load` imports the engine.
"""
