"""hg-git's own tests, run with amalgam in its place."""
