"""Mercurial repositories written from a seed, for measurements and tests.

Revlogs are written directly, without a transaction, so that two million changesets
take a minute; `hg verify` accepts every result. The same profile, sizes and seed give
the same nodes with each Mercurial and Python. Layers, lowest first: ``revlogs`` (one
revlog), ``stores`` (a repository on disk), ``histories`` (changesets, manifests and
merges), ``texts`` (what people write), then the profiles.
"""
