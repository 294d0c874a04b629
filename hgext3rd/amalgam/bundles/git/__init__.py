"""Bundles for git and for git-cinnabar: what is in one, and how it is written."""
