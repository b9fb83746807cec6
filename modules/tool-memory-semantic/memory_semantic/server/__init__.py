"""The memories of many machines in one place: on a Qdrant server, or a cluster of them.

`memory_semantic` comes here only where `qdrant_url` is set. Importing this loads no client.
"""

from .server import Server

__all__ = ["Server"]
