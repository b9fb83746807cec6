"""The commands, a file for each: how it is called, and what it does."""
