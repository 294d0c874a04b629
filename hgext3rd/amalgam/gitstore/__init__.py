"""Git stores: the git repository of a dialect, and what amalgam records about it.

Data flows one way: ``state`` selects the changesets that may leave, ``exporting``
converts them with the native core, and ``git`` holds the result.

``lockholder`` tells which export is under way. ``verify`` compares a store with the
history, ``status`` summarises it, and ``repair`` repairs it.
"""
