"""Adoption: going on from a git repository that another program has made.

``adopt`` has the order of work, and says where a commit differs from its changeset.
``mirror`` reads the repository, ``mappings`` pairs commits and changesets.
"""
