"""The commands, one file per group: how each is called, and what it does."""
