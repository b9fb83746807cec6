"""Memories shared between agents: copies in the store of another, and searches in it as well.

None of it happens unless a person asks for it, with a command or a setting. The tools and
`memory_semantic` do not know of it.
"""
