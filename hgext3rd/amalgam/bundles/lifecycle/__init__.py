"""The life of a published bundle, from what is missing to what is withdrawn.

``register`` has what is known of each, ``policy`` what is missing; ``newbundle`` makes,
``publication`` brings to where clients read, ``eligibility`` says which may be named.
"""
