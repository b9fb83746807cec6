"""What other tools remember, read for `import`: one file for each family of forms.

A reader recognises a file by its shape, adds to a `Haul` what may become memories, and counts there
by name what it leaves out. Nothing is unpacked to disk, run, or fetched, except from the address of
a Qdrant server that the person names.
"""
