"""Adoption: going on from a git repository that another program has made.

``adopt`` has the order of work. ``mirror`` reads the repository, ``mappings`` finds out
which commit is which changeset's, and ``difference`` says where the two differ.
"""
