"""Files that a clone can start from, made of what the repository has published."""
