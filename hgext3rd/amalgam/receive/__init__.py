"""git pushes into Mercurial: from commands and a pack to changesets.

``accept`` has the order of work. ``quarantine`` is the repository that git writes into.
``commands`` are the ref commands and push options, ``refplan`` their effect in
Mercurial, ``branches`` the order of named branches, ``tagging`` the commit of tags.
``convert`` makes changesets, ``apply`` stores them in a transaction of Mercurial's,
``successors`` marks replaced drafts. ``survey`` asks the same about a whole git
repository.
"""
