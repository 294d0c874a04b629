"""The life of a published bundle, from what is missing to what is withdrawn.

``register`` has what is known of each, ``demand`` what is missing; ``making`` makes,
``publish`` brings to where clients read, ``live`` says which may be named.
"""
