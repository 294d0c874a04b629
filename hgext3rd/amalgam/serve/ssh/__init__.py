"""The console script ``hg-amalgam-ssh``: what clients get over ssh."""
