"""Stub of the compiled module: cffi's values are ``Any``, arguments are checked.

A function of the header is one line in ``_Lib``, in the header's order.
"""

from collections.abc import Callable
from typing import Any, TypeVar

_Func = TypeVar("_Func", bound=Callable[..., Any])
_Pointer = Any

class _Lib:
    AMALGAM_STATUS_OK: int
    AMALGAM_STATUS_INPUT: int
    AMALGAM_STATUS_CORRUPT: int
    AMALGAM_STATUS_UNSUPPORTED: int
    AMALGAM_STATUS_IO: int
    AMALGAM_STATUS_BUG: int
    AMALGAM_STATUS_CANCELLED: int
    AMALGAM_STATUS_MOVED: int

    amalgam_report: _Pointer

    def amalgam_changegroup_open(
        self,
        out: _Pointer,
        message: _Pointer,
        message_len: int,
        changelog: _Pointer,
        manifest: _Pointer,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_changegroup_free(self, changegroup: _Pointer, /) -> None: ...
    def amalgam_changegroup_read(
        self,
        written: _Pointer,
        buffer: _Pointer,
        buffer_len: int,
        changegroup: _Pointer,
        report: _Pointer,
        handle: _Pointer,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_job_run(
        self,
        answer: _Pointer,
        message: _Pointer,
        message_len: int,
        changelog: _Pointer,
        manifest: _Pointer,
        report: _Pointer,
        handle: _Pointer,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_answer_free(self, answer: Any, /) -> None: ...
    def amalgam_nodemap_open(
        self,
        out: _Pointer,
        file: int,
        path: _Pointer,
        path_len: int,
        uid: _Pointer,
        uid_len: int,
        runs: _Pointer,
        runs_len: int,
        limit: int,
        index: _Pointer,
        index_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_nodemap_open_upstream(
        self,
        out: _Pointer,
        file: int,
        path: _Pointer,
        path_len: int,
        len_bytes: int,
        revs: int,
        mapped: int,
        index: _Pointer,
        index_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_nodemap_free(self, map: _Pointer, /) -> None: ...
    def amalgam_nodemap_rev(
        self,
        map: _Pointer,
        index: _Pointer,
        index_len: int,
        node: _Pointer,
        node_len: int,
        /,
    ) -> int: ...
    def amalgam_nodemap_match(
        self,
        node: _Pointer,
        node_len: int,
        map: _Pointer,
        index: _Pointer,
        index_len: int,
        digits: _Pointer,
        digits_len: int,
        /,
    ) -> int: ...
    def amalgam_nodemap_shortest(
        self,
        map: _Pointer,
        index: _Pointer,
        index_len: int,
        node: _Pointer,
        node_len: int,
        /,
    ) -> int: ...
    def amalgam_nodemap_append(
        self,
        map: _Pointer,
        rev: int,
        node: _Pointer,
        node_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_nodemap_truncate(
        self,
        map: _Pointer,
        revs: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_nodemap_check(
        self,
        map: _Pointer,
        index: _Pointer,
        index_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_nodemap_run_len(
        self,
        len_bytes: _Pointer,
        revs: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_nodemap_run_write(
        self,
        bytes: _Pointer,
        bytes_len: int,
        uid: _Pointer,
        uid_len: int,
        run: _Pointer,
        index: _Pointer,
        index_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_nodemap_content(
        self,
        answer: _Pointer,
        index: _Pointer,
        index_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_map_open(
        self,
        out: _Pointer,
        message: _Pointer,
        message_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_map_free(self, map: _Pointer, /) -> None: ...
    def amalgam_map_count(
        self, count: _Pointer, map: _Pointer, table: int, error: _Pointer, /
    ) -> int: ...
    def amalgam_map_oids(
        self,
        oids: _Pointer,
        oids_len: int,
        map: _Pointer,
        table: int,
        hg_nodes: _Pointer,
        hg_nodes_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_map_changesets(
        self,
        hg_nodes: _Pointer,
        hg_nodes_len: int,
        map: _Pointer,
        oids: _Pointer,
        oids_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_map_match(
        self,
        matches: _Pointer,
        matches_len: int,
        map: _Pointer,
        side: int,
        prefixes: _Pointer,
        prefixes_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_map_check(self, map: _Pointer, error: _Pointer, /) -> int: ...
    def amalgam_map_pairs(
        self,
        pairs: _Pointer,
        pairs_len: int,
        written: _Pointer,
        map: _Pointer,
        table: int,
        start: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_map_sift(
        self,
        answer: _Pointer,
        map: _Pointer,
        message: _Pointer,
        message_len: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_map_compare(
        self,
        answer: _Pointer,
        found: _Pointer,
        expected: _Pointer,
        report: _Pointer,
        handle: _Pointer,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_mapped_new(
        self,
        out: _Pointer,
        data: _Pointer,
        snapshot: int,
        path: _Pointer,
        path_len: int,
        covered: int,
        index: int,
        len: int,
        prefault: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_mapped_expect(
        self,
        mapped: _Pointer,
        expected: int,
        start: int,
        end: int,
        error: _Pointer,
        /,
    ) -> int: ...
    def amalgam_mapped_free(self, mapped: _Pointer, /) -> None: ...
    def amalgam_snapshot_common(
        self,
        common: _Pointer,
        snapshot: int,
        path: _Pointer,
        path_len: int,
        covered: int,
        index: int,
        len: int,
        error: _Pointer,
        /,
    ) -> int: ...

class _FFI:
    NULL: _Pointer

    def new(self, ctype: str, init: Any = ..., /) -> _Pointer: ...
    def new_handle(self, value: object, /) -> _Pointer: ...
    def from_handle(self, handle: _Pointer, /) -> Any: ...
    def from_buffer(
        self, ctype: str, data: Any, require_writable: bool = ...
    ) -> _Pointer: ...
    def buffer(self, pointer: _Pointer, size: int = ..., /) -> memoryview: ...
    def release(self, pointer: _Pointer, /) -> None: ...
    def gc(self, pointer: _Pointer, free: Callable[[Any], None], /) -> _Pointer: ...
    def def_extern(
        self, *, error: int, onerror: Callable[[Any, Any, Any], None]
    ) -> Callable[[_Func], _Func]: ...

ffi: _FFI
lib: _Lib
