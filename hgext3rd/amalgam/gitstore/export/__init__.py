"""One export: convert, remember, name.

``export`` has the steps in order, ``conversion`` calls the native core. ``writer``
keeps docket and files in step, and ``docketedits`` makes new dockets of old ones.
``journal`` refuses changesets that Mercurial may yet roll back.
"""
