"""git pushes into Mercurial: from commands and a pack to changesets.

``push`` has the order of work. ``quarantine`` is the repository that git writes into.
``commands`` are the ref commands and push options, ``graph`` the new commits,
``refplan`` the effect on refs in Mercurial, ``branches`` the order of named branches,
``tagging`` the commit of tags.
``convert`` makes changesets, ``apply`` stores them in a transaction of Mercurial's,
``successors`` marks replaced drafts. ``survey`` asks the same about a whole git
repository.
"""
