"""Mercurial's own tests, with amalgam: ``python3 -m upstream``, from ``tests``."""
