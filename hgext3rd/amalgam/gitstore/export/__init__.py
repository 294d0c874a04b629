"""One export: convert, remember, name.

``steps`` has the order of it, ``conversion`` calls the native core, ``storefiles``
keeps docket and files in step, and ``transitions`` has what a docket becomes.
``exportlock`` keeps exports apart, and ``pending`` refuses what may yet be rolled back.
"""
