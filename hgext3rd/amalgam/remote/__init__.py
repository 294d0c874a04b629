"""git repositories elsewhere, reached by git with the user's own configuration.

``replicate`` makes them equal to the git store, ref by ref.
"""
