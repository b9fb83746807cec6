"""The store of an agent on a Qdrant server, which many machines may share. See `backend`."""
