"""The recorded state of a store, and the repository that it comes from.

Runs no git. ``source`` finds that repository, ``selection`` the changesets that may
leave. ``docket`` records what is exported, in ``layers``, and ``oidmap`` has the ids.
"""
