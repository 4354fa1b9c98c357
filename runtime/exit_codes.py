"""Exit codes of every command, in one table; `docs/commands.md` has the same."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Result of a command, for scripts and service managers."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_RUNNING = 3
    NEEDS_A_PERSON = 4

    @property
    def meaning(self) -> str:
        """What a script may conclude from it."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.DONE: "done; what was checked holds",
    ExitCode.FAILED: "refused or failed, which one sentence on stderr tells, or what was checked "
    "does not hold",
    ExitCode.USAGE: "wrong usage: an unknown option, a value that cannot be; for `ledger` also a "
    "home without one",
    ExitCode.NOT_RUNNING: "`coordinator status`, `agent status`: no program runs there, or none "
    "that answers",
    ExitCode.NEEDS_A_PERSON: "`coordinator status`, `agent status`: it runs, and cannot do its "
    "work or needs a person now; a command that would ask: nobody is there, nothing was done, and "
    "its sentence names the option that answers",
}
