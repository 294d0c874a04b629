"""Jobs and other long calls of the native core, with progress bars and Ctrl-C.

The core reports on the calling thread, about ten times a second. Python runs its signal
handlers in that report. The core's worker threads never enter Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core import ffi, lib
from .buffers import lent, taken
from .errors import check
from .message import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mercurial.interfaces.types import UiT


class Operation:
    """A long call, with a progress bar for each of its phases.

    ``phases``: topic and unit of the phases by their numbers; the others have no bar.
    ``on_stop`` is called if the report raises, for calls that wait for processes.
    """

    def __init__(
        self,
        ui: UiT,
        phases: Mapping[int, tuple[bytes, bytes]],
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        self.raised: BaseException | None = None
        self._ui = ui
        self._on_stop = on_stop
        self._phases = phases
        self._phase: int | None = None
        self._bar: Any = None

    def job(
        self,
        name: str,
        fields: Mapping[str, Any],
        indexes: tuple[Any, Any] = (None, None),
    ) -> dict[str, Any]:
        """Run the job ``name`` of the core and return its answer.

        ``fields``: as ``rust/capi/src/jobs`` reads them. ``indexes``: those of
        changelog and manifest, if they are mapped.
        """
        message = lent(encode({"job": name, **fields}))
        pointers = [index or ffi.NULL for index in indexes]
        answer = ffi.new("amalgam_answer *")
        self.run(lib.amalgam_job_run, answer, *message, *pointers)
        return decode(taken(answer))

    def run(self, func: Callable[..., int], *args: Any) -> None:
        """Run ``func(*args, report, handle, error)`` to its end.

        Raises the exception of the report, ``KeyboardInterrupt`` included, else that of
        the returned status.
        """
        try:
            self.step(func, *args)
        finally:
            self.close()

    def step(self, func: Callable[..., int], *args: Any) -> None:
        """Run one of several calls; ``close`` comes after the last one."""
        handle = ffi.new_handle(self)  # must outlive the call
        problem = ffi.new("amalgam_error *")
        status = func(*args, lib.amalgam_report, handle, problem)
        if self.raised is not None:
            raise self.raised
        check(status, problem)

    def report(self, phase: int, done: int, total: int) -> None:
        """Draw the bar. An exception stops the call."""
        if phase != self._phase:
            self.close()
            self._phase = phase
            if phase in self._phases:
                topic, unit = self._phases[phase]
                self._bar = self._ui.makeprogress(topic, unit=unit)
        if self._bar is not None:
            self._bar.update(done, total=total or None)

    def stop(self, exc: BaseException) -> None:
        """Keep the exception of a report for the end of the call."""
        self.raised = exc
        if self._on_stop is not None:
            self._on_stop()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.complete()
            self._bar = None


def _keep(_kind: object, exc: BaseException, traceback: Any) -> None:
    """Keep the exception of a report; cffi would only print it to stderr."""
    handle = traceback.tb_frame.f_locals["handle"]
    ffi.from_handle(handle).stop(exc)


@ffi.def_extern(error=1, onerror=_keep)
def amalgam_report(handle: Any, phase: int, done: int, total: int) -> int:
    """Pass a report of the core to its operation. A nonzero answer stops the core."""
    operation: Operation = ffi.from_handle(handle)
    operation.report(phase, done, total)
    return 0
