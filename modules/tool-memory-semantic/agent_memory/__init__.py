"""The command `agent-memory`: how the person behind an agent sees and corrects its memories.

It uses `memory_semantic`, which knows nothing of it.
"""
