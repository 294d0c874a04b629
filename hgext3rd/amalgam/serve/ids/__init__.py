"""Ids of changesets and commits over HTTP."""
