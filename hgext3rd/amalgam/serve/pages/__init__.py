"""What hgweb's pages show of git."""
