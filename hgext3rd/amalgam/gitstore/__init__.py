"""The git stores: what is exported, where it lies, and what it is called.

Data flows one way: ``selection`` says which changesets of the ``source``, the native
core converts them (called by ``run`` through ``conversion``), ``docket`` remembers
what is done, ``oidmap`` answers ids, ``refs`` says what git users see, ``repository``
is the bare git repository that holds it all. ``exclusion`` keeps exports apart,
``gitprocess`` runs git.

Who looks at it afterwards: ``ids`` translates, ``verify`` compares, ``status`` tells at
a glance, with ``holder`` of the lock, and ``repair`` mends.
"""
