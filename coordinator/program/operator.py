"""The operator's inbox: commands for a coordinator that may be running in another process.

The ledger has one writer. So a command is written into a small SQLite file beside it; the running
coordinator carries it out and writes the answer into the same row.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.inputs import OperatorCommand
from fleetledger.coordinator.errors import (
    InboxError,
)
from fleetledger.runtime.private_file import make_home
from fleetledger.runtime.problems import HELD
from fleetledger.schemas.message import explain

FILE_NAME = "operator.db"
POLL_SECONDS = 0.05
BUSY_SECONDS = 5
"""How long a process waits for another one that has the file."""
_OPERATOR_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_ACTOR = re.compile(rf"{OPERATOR}(:{_OPERATOR_NAME.pattern})?")
_ASKS = 2
"""In the column `done`, beside 0 and 1."""
_COMMAND: TypeAdapter[Command] = TypeAdapter(Command)


@dataclass(frozen=True)
class CommandAnswer:
    """What came of a command."""

    done: bool
    text: str
    asks: bool = False
    """The text is a question, and nothing was done yet."""
    entries: tuple[int, ...] = ()
    """Indices of the entries that it made."""


def actor_of(name: str) -> str:
    """Return who makes entries by commands of the operator `name`; raise `InboxError`."""
    if not _OPERATOR_NAME.fullmatch(name):
        raise InboxError(f"operator: {name!r} is not allowed as a name")
    return f"{OPERATOR}:{name}"


class AnswersCommands(Protocol):
    """Where answers to commands go."""

    def answer(self, ticket: str, answer: CommandAnswer) -> None:
        """Write what came of a command."""


class OperatorInbox:
    """Commands and their answers, in one SQLite file that several processes may open."""

    def __init__(self, home: Path) -> None:
        """Open the file, making it where there is none; raise `InboxError`, as all methods do."""
        from sqlite_utils import Database  # noqa: PLC0415 - heavy, and most commands only read

        make_home(home)
        self._path = home / FILE_NAME
        with self._translated("opened"):
            self._database = Database(sqlite3.connect(self._path, timeout=BUSY_SECONDS))
            self._write_ahead()
            self._table = self._database.table("command")
            with self._alone():
                self._make_table()

    def submit(self, command: Command, *, actor: str = OPERATOR) -> str:
        """Put a command of `actor` in and return its ticket."""
        ticket = secrets.token_hex(8)
        body = _COMMAND.dump_json(command).decode("utf-8")
        with self._translated("written"):
            self._table.insert(
                {"ticket": ticket, "body": body, "actor": actor},
            )
        return ticket

    def waiting(self) -> list[OperatorCommand]:
        """Return unanswered commands in their order; unreadable ones are answered at once."""
        found = []
        with self._translated("read"):
            rows = list(self._table.rows_where("answer is null", order_by="number"))
        for row in rows:
            try:
                command = _COMMAND.validate_json(row["body"])
            except ValidationError as error:
                self.answer(row["ticket"], CommandAnswer(False, f"command: {explain(error)}"))
                continue
            actor = row["actor"] or OPERATOR
            if not _ACTOR.fullmatch(actor):
                self.answer(row["ticket"], CommandAnswer(False, "actor: is no operator's name"))
                continue
            found.append(OperatorCommand(row["ticket"], command, actor))
        return found

    def answer(self, ticket: str, answer: CommandAnswer) -> None:
        """Write what came of a command."""
        done, entries = _ASKS if answer.asks else answer.done, json.dumps(answer.entries)
        with self._translated("written"), self._database.conn:
            self._database.execute(
                "update command set done = ?, answer = ?, entries = ? where ticket = ?",
                [done, answer.text, entries, ticket],
            )

    def answer_to(self, ticket: str) -> CommandAnswer | None:
        """Return the answer to a command, or None while there is none."""
        row: dict[str, Any]
        with self._translated("read"):
            for row in self._table.rows_where("ticket = ? and answer is not null", [ticket]):
                done, entries = row["done"], tuple(json.loads(row["entries"]))
                return CommandAnswer(done == 1, row["answer"], done == _ASKS, entries)
        return None

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _write_ahead(self) -> None:
        """Keep a log of writes, so that readers and the writer need not wait for one another.

        Two processes that make the file at once would both turn it into one with such a log, and
        for that SQLite answers "locked" without the wait that it was told; so the wait is here.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._database.enable_wal()
            except sqlite3.OperationalError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(POLL_SECONDS / 10)
            else:
                return

    def _make_table(self) -> None:
        """Make the table where there is none."""
        self._table.create(
            {
                "number": int,
                "ticket": str,
                "body": str,
                "done": int,
                "answer": str,
                "actor": str,
                "entries": str,
            },
            pk="number",
            if_not_exists=True,
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Read and write with no other writer in between, waiting for the one that is there."""
        with self._database.conn:
            self._database.conn.execute("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def _translated(self, verb: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            held = "locked" in str(error)
            cause = HELD if held else f"{error}; look at the disk's space and health"
            raise InboxError(f"{self._path}: cannot be {verb} now: {cause}") from error
