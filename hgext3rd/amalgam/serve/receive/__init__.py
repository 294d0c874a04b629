"""Pushes of git clients: routes, git's own part in them, and its hook.

What becomes of a push is decided in ``amalgam.push``.
"""
