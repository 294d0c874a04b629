"""Version and compatibility; setup.py reads this file without importing it."""

from __future__ import annotations

__version__ = b"0.1.0"
testedwith = b"6.9 7.0 7.1 7.2"
minimumhgversion = b"6.9"
buglink = b"https://pypi.org/project/hg-amalgam/"
