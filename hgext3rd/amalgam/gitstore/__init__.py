"""The git stores: what is exported, where it lies, and what it is called.

Data flows one way: ``selection`` says which changesets, the native core converts them
(called by ``export``), ``docket`` remembers what is done, ``oidmap`` answers ids,
``refs`` says what git users see, ``repository`` is the bare git repository that holds
it all.
"""
