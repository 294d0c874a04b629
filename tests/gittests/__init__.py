"""git's own tests of smart HTTP, against hgweb with amalgam."""
