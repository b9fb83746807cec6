"""The commands, one file for each group of them: how each is asked, and what it does."""
