"""Hooks beside the memory tools: recall and capture, both before a prompt.

The tools and `memory_semantic` do not know about them. Importing this loads nothing heavy:
Amplifier mounts every module twice, once only to look at it.
"""
