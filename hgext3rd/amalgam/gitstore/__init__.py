"""Git stores: the git repository of a dialect, and amalgam's records about it.

``selection`` says which changesets may be in it, ``plan`` which belong where,
``docket`` which files count. ``export`` brings it up to date, ``git`` holds the result.
``verify`` compares it with the history, ``status`` summarises and repairs it.
"""
