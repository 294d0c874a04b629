"""What hgweb answers besides Mercurial's own requests."""
