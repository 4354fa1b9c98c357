"""Secrets that let somebody in, as files in a program's home: hashes, never the secrets.

    PROGRAM-links.json      links that work once
    PROGRAM-sessions.json   browsers that came by one
    PROGRAM-tokens.json     bearer tokens of programs

Several processes may change a file; each holds it for itself meanwhile, and replaces it whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import Digest
from fleetledger.transport.errors import GrantsFileError
from fleetledger.transport.pages.people import Person, Role

_SECOND_NS = 1_000_000_000
_WRITE_NS = 60 * _SECOND_NS
"""How far what is written about a use may lie behind."""
MOST_GRANTS = 10_000
"""In a file; the oldest go first."""


class Grant(Strict):
    """Somebody who may come in with a secret."""

    digest: Digest
    """Of the secret."""
    name: str
    role: Role
    made_ns: int
    used_ns: int

    @property
    def person(self) -> Person:
        """Who that is."""
        return Person(self.name, self.role)


_GRANTS: TypeAdapter[tuple[Grant, ...]] = TypeAdapter(tuple[Grant, ...])
_Change = Callable[[dict[Digest, Grant]], None]


class Grants:
    """One file of grants; every method raises `GrantsFileError`."""

    def __init__(self, path: Path, *, idle_seconds: float | None = None) -> None:
        """End a grant that is not used for `idle_seconds`; None: it does not end by itself."""
        self._path = path
        self._idle_ns = None if idle_seconds is None else int(idle_seconds * _SECOND_NS)
        self._read: tuple[tuple[int, int, int] | None, dict[Digest, Grant]] = (None, {})

    def make(self, person: Person, now_ns: int) -> str:
        """Let somebody in by a new secret, which is returned and kept nowhere."""
        secret = secrets.token_urlsafe(32)
        grant = Grant(
            digest=_digest(secret),
            name=person.name,
            role=person.role,
            made_ns=now_ns,
            used_ns=now_ns,
        )

        def add(found: dict[Digest, Grant]) -> None:
            for digest in [one for one, other in found.items() if self._ended(other, now_ns)]:
                del found[digest]
            while len(found) >= MOST_GRANTS:
                del found[next(iter(found))]
            found[grant.digest] = grant

        self._change(add)
        return secret

    def use(self, secret: str, now_ns: int) -> Person | None:
        """Return who has this secret; None where nobody has, or has not any more."""
        grant = self._load().get(_digest(secret))
        if grant is None or self._ended(grant, now_ns):
            return None
        if self._idle_ns is not None and now_ns - grant.used_ns > _WRITE_NS:
            used = grant.model_copy(update={"used_ns": now_ns})

            def touch(found: dict[Digest, Grant]) -> None:
                if used.digest in found:
                    found[used.digest] = used

            self._change(touch)
        return grant.person

    def consume(self, secret: str, now_ns: int) -> Person | None:
        """Return who has this secret, which works no more; None where nobody has it."""
        taken: list[Grant] = []

        def remove(found: dict[Digest, Grant]) -> None:
            grant = found.pop(_digest(secret), None)
            if grant is not None and not self._ended(grant, now_ns):
                taken.append(grant)

        if _digest(secret) in self._load():
            self._change(remove)
        return taken[0].person if taken else None

    def all(self) -> tuple[Grant, ...]:
        """Return every grant, oldest first."""
        return tuple(self._load().values())

    def revoke(self, name: str) -> int:
        """End every grant of that name; return how many there were."""
        ended: list[Digest] = []

        def remove(found: dict[Digest, Grant]) -> None:
            ended.extend(digest for digest, grant in found.items() if grant.name == name)
            for digest in ended:
                del found[digest]

        self._change(remove)
        return len(ended)

    def _ended(self, grant: Grant, now_ns: int) -> bool:
        return self._idle_ns is not None and now_ns - grant.used_ns > self._idle_ns

    def _load(self) -> dict[Digest, Grant]:
        """Read the file, where it is not as it was read before."""
        try:
            status = self._path.stat()
            state = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self._read[0] != state:
                found = _GRANTS.validate_json(self._path.read_bytes())
                self._read = (state, {grant.digest: grant for grant in found})
        except FileNotFoundError:
            self._read = (None, {})
        except (OSError, ValidationError) as error:
            raise GrantsFileError(
                f"{self._path}: cannot be read: {error}; delete it to begin anew"
            ) from error
        return self._read[1]

    def _change(self, change: _Change) -> None:
        with self._alone():
            found = dict(self._load())
            change(found)
            draft = self._path.with_suffix(".new")
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_GRANTS.dump_json(tuple(found.values()), indent=2))
            draft.replace(self._path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            raise GrantsFileError(f"{self._path}: cannot be written: {error}") from error


def _digest(secret: str) -> Digest:
    return Digest(hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest())
