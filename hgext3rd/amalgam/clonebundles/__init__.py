"""Clone bundles: generated, published and advertised files that clones start from."""
