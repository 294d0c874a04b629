"""What saves the server work: capabilities that are kept, packs that are spliced."""
