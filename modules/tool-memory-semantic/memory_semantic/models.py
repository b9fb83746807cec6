"""Embedding models that run on this machine: what can be fetched, what was, and what one lacks."""

from .embeddings.catalogue import RECOMMENDED
from .embeddings.fetch import all_fetched, fetch, listed
from .embeddings.onnx import missing

__all__ = ["RECOMMENDED", "all_fetched", "fetch", "listed", "missing"]
