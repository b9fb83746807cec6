"""Embedding models that `fastembed` runs on this machine: which there are, which were fetched.

Importing this does not import fastembed.
"""

from .catalogue import RECOMMENDED, english_only, prefixes, real_name
from .fetching import all_fetched, fetch, listed
from .running import embed, fetched, missing

__all__ = [
    "RECOMMENDED",
    "all_fetched",
    "embed",
    "english_only",
    "fetch",
    "fetched",
    "listed",
    "missing",
    "prefixes",
    "real_name",
]
