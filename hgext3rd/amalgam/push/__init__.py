"""git pushes into Mercurial: which commits can be pushed, and the changesets of them.

``survey`` has the order of work of a survey, ``conversion`` that of a conversion,
``processes`` the git processes of both, ``reasons`` what is refused, and ``mirrorrefs``
the branches and tags of a git repository whose configuration is not obeyed.
"""
