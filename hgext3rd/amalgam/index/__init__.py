"""Indexes of changelog and manifest, memory-mapped or read.

Mercurial calls ``opening`` when it opens them. ``indexfile`` describes a file,
``decision`` says whether to map it, and ``mapping`` makes its bytes: a ``snapshot`` in
a ``buffer``. ``refresh`` updates snapshots, ``check`` compares them with their indexes.
A ``nodemap`` finds nodes. Nothing here knows git.

Every hg command loads this package. So modules are imported as modules, which Mercurial
loads lazily, and small records are ``records.Record``.
"""
