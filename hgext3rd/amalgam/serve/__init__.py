"""Requests of git clients, and downloads of bundles, in hgweb and over ssh."""
