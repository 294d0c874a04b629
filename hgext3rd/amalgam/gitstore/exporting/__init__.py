"""One export: convert, remember, name.

``run`` has the order of it, ``conversion`` calls the native core, ``contents`` keeps
docket and files in step, and ``transitions`` has what a docket becomes. ``exclusion``
keeps exports apart, ``holder`` tells which one is under way.
"""
