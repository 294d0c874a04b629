"""The bare git repository of a store, its files, and the git program.

``process`` is the only module that runs git. Nothing here knows of changesets.
"""
