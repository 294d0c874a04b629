"""Several servers of one history, which do not talk to each other."""
