"""The store in files on this machine."""
