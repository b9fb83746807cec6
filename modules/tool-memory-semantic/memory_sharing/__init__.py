"""Shares memories between agents: copies them to another agent's store, and searches in it.

Neither happens unless a person asks for it, with a command or a setting. The memory tools and
`memory_semantic` know nothing of it.
"""
