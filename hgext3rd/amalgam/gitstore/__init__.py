"""The git stores: what is exported, where it lies, and what it is called.

Data flows one way: ``state`` says which changesets may leave and which are exported,
``exporting`` has the native core convert them and names them in the repository, which
is the matter of ``git``.

Who looks at it afterwards: ``verify`` compares, ``status`` tells at a glance, and
``repair`` mends.
"""
