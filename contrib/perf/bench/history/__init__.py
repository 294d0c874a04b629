"""Results over the commits of a tree: kept, put in order, and searched for steps.

``revision`` asks git what is checked out, ``kept`` owns the files, ``trend`` makes the
series of a subject, and ``steps`` finds where a series changed.
"""
