"""An agent's store on a Qdrant server, which many machines may share. See `collection`."""
