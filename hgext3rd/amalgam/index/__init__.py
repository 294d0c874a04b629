"""Indexes of changelog and manifest, memory-mapped or read.

``openhooks`` is where Mercurial opens them. ``indexfile`` describes a file,
``decision`` says whether to map it, and ``opening`` makes its bytes: a ``snapshot``,
with its ``docket``, in a ``buffer``. ``renewal`` updates snapshots, and ``examination``
compares them. ``lookuphooks`` puts a ``nodemap`` in front of an index. ``nodesource``
chooses the map: our ``nodefile`` or Mercurial's. ``config.IndexConfig`` is the
configuration. Nothing here knows git.

Every hg command pays for what is loaded here. So modules are imported as modules, which
Mercurial loads lazily, and small records are ``records.Record``.
"""
