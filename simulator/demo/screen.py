"""What the person at the keyboard sees while the demo runs.

On a terminal one line at the bottom changes; elsewhere (a log, a pipe) every change is a line.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.status import Status
from typing_extensions import Self


class Screen:
    """Lines that stay, and one that says what is awaited."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._status: Status | None = None
        self._awaited = ""

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._status = self.console.status("starting")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self._awaited = ""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def wait(self, text: str) -> None:
        """Show what is awaited now; the same as before is not shown again."""
        if text == self._awaited:
            return
        self._awaited = text
        if self._status is not None:
            self._status.update(text)
        else:
            self.console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)
