"""Bundles for Mercurial: how they are made and compressed, beneath its own commands."""
