"""git pushes into Mercurial: which commits can be pushed, and the changesets of them.

``accepting`` has the order of work of a push. ``receiving`` has the repository that git
writes into, ``conversion`` makes changesets, ``applying`` stores them in a transaction
of Mercurial's, ``successors`` marks what they replace, and ``comingback`` looks at the
export that follows. ``listening`` passes on what hooks say. What pushes ask for is in
``options`` and ``refs``, what may not be in ``limits`` and ``reasons``. ``survey`` has
the order of work of a survey, whose branches and tags are from ``mirrorrefs``;
``processes`` are the git processes of both.
"""
