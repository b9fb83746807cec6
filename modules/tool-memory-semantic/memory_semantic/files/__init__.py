"""The store in files of this machine."""
