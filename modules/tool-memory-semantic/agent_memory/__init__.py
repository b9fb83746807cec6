"""The command `agent-memory`: what the person behind an agent does with its memories.

It stands beside `memory_semantic` and uses it; nothing there knows of it.
"""
