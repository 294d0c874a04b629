"""Commit ids against those of the git-cinnabar program: see ``__main__``."""
