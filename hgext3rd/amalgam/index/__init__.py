"""How the indexes of changelog and manifest get into memory.

``openhooks`` is where Mercurial opens them. It asks ``indexfile`` what a file looks
like, ``decision`` whether it is to be mapped, and ``opening`` for its bytes: a
``snapshot``, with its ``docket``, in a ``buffer``. ``renewal`` brings snapshots up to
date, ``examination`` compares them. ``lookuphooks`` puts a ``nodemap`` before an index,
with what ``nodesource`` finds for it, a ``nodefile`` of ours or Mercurial's. The
configuration is ``configitems.IndexConfig``. Nothing here knows git.

Every command of hg pays for what is loaded here, so modules are imported by name, which
Mercurial defers until they are used, and small records are ``records.Record``.
"""
