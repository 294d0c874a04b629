"""git pushes into Mercurial. So far only the survey: what such a push would refuse.

``survey`` has the order of work, ``reasons`` what is refused, and ``mirrorrefs`` the
branches and tags of a git repository whose configuration is not obeyed.
"""
