"""Repositories of hg-git: its files are taken over, and kept.

``mapfile`` has the format of its map, ``objects`` its git repository. ``adoption``
takes both over, at the first command that needs them, and again when hg-git has changed
them. ``dialect`` lets such a repository have hg-git's dialect.
"""
