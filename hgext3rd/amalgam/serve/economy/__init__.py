"""What saves the server work: what is known of stores and of git; spliced packs."""
