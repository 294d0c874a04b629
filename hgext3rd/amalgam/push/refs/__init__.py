"""Refs of a push: what is asked for, what they are, and what may become of them."""
