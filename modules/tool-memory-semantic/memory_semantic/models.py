"""Embedding models that run on this machine: which can be fetched, which were, what is missing."""

from .embeddings.catalogue import RECOMMENDED
from .embeddings.fetch import all_fetched, fetch, listed
from .embeddings.onnx import missing

__all__ = ["RECOMMENDED", "all_fetched", "fetch", "listed", "missing"]
