"""What is known of a store and of the repository it stands for; runs no git.

``source`` is that repository, ``selection`` which of its changesets may leave,
``docket`` what is exported, in ``layers``, and ``oidmap`` their ids.
"""
