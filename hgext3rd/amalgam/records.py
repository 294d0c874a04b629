"""Named tuples and enumerations that are cheap to define.

Every hg command pays for the classes of the modules that it loads. These take a half or
less of the instructions of ``typing.NamedTuple`` and ``enum.Enum``, and an eighth of a
dataclass (``docs/decisions/own-parts.rst``); the package uses no others. Type
checkers see ``Record`` and ``Choice`` as these standard classes.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

__all__ = ["Choice", "Record"]

if TYPE_CHECKING:
    from enum import Enum as Choice
    from typing import NamedTuple as Record
else:

    class _Named(type):
        """Makes the fields of a class from its annotations."""

        def __new__(mcs, name, bases, namespace):
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {key: namespace[key] for key in fields if key in namespace}
            for at, key in enumerate(fields):
                namespace[key] = property(operator.itemgetter(at))
            namespace.update(__slots__=(), _fields=fields, _field_defaults=defaults)
            return super().__new__(mcs, name, bases, namespace)

    class Record(tuple, metaclass=_Named):
        """A tuple whose items have the names that are annotated in a subclass."""

        def __new__(cls, *items, **named):
            """Take the arguments of a ``typing.NamedTuple``."""
            if named or len(items) != len(cls._fields):
                items = _complete(cls, items, named)
            return tuple.__new__(cls, items)

        def __repr__(self):
            """Return the call that makes an equal one."""
            items = map("{}={!r}".format, self._fields, self)
            return f"{type(self).__name__}({', '.join(items)})"

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **named):
            return type(self)(**(self._asdict() | named))

    def _complete(cls, items, named):
        """Return all items; ``TypeError`` if one is missing, unknown or there twice."""
        rest = []
        for key in cls._fields[len(items) :]:
            if key in named:
                rest.append(named.pop(key))
            elif key in cls._field_defaults:
                rest.append(cls._field_defaults[key])
        items = (*items, *rest)
        if named or len(items) != len(cls._fields):
            expected = ", ".join(cls._fields)
            raise TypeError(f"{cls.__name__} is made of {expected}")
        return items

    class _Members(type):
        """Makes members of a class from the strings and numbers in its body."""

        def __new__(mcs, name, bases, namespace):
            cls = super().__new__(mcs, name, bases, namespace)
            cls._members = {}
            for key, value in namespace.items():
                if isinstance(value, int | str) and not key.startswith("_"):
                    cls._members[key] = member = object.__new__(cls)
                    member.name, member.value = key, value
                    setattr(cls, key, member)
            return cls

        def __iter__(cls):
            return iter(cls._members.values())

    class Choice(metaclass=_Members):
        """One of the members of a subclass, whose values all differ."""

        def __repr__(self):
            """Return the value as it is written."""
            return f"{type(self).__name__}.{self.name}"
