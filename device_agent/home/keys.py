"""The device's own key: made here, readable by the agent's user alone, never sent anywhere.

A key that the coordinator has not confirmed yet waits in a file of its own, with what it is asked
to confirm it by. Each file is written whole, so whoever is killed at any moment finds either the
key that counts or both, asks again, and ends with one.
"""

from __future__ import annotations

import stat
from pathlib import Path

from pydantic import Field, ValidationError
from typing_extensions import Self

from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home.store.blobs import sync_folder
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.enrolment import (
    Enrolment,
    KeyRotation,
    approve,
    device_key_name,
    enrolment_mac,
)
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.token import Token
from fleetledger.schemas.values import DeviceId, Digest, FleetId


class _Waiting(Strict):
    """A key that waits for the coordinator's word; with a token's secret where it is the first."""

    pem: str = Field(repr=False)
    secret: str | None = Field(default=None, repr=False)


class KeyRing:
    """The keys of one device: the one that counts, and the one that waits."""

    def __init__(self, folder: Path, fleet: FleetId, device: DeviceId) -> None:
        """Read what lies in `folder`; raise `HomeError` if others may read it, or nobody can."""
        self._folder = folder
        self._fleet, self._device = fleet, device
        self.current = self._read_current()
        """The key that the coordinator has confirmed."""
        self._waiting = self._read_waiting()
        self.waiting = None if self._waiting is None else self._key(self._waiting.pem.encode())
        """The key that it has not."""

    @property
    def asks(self) -> Enrolment | KeyRotation | None:
        """What the coordinator is asked to confirm; raise `HomeError` if it cannot be asked."""
        if self._waiting is None or self.waiting is None:
            return None
        key = self.waiting.verify_key
        if self._waiting.secret is not None:
            secret = bytes.fromhex(self._waiting.secret)
            return Enrolment(key=key, mac=enrolment_mac(secret, self._fleet, self._device, key))
        if self.current is None:
            raise HomeError(
                f"{self._current_file}: is missing, and another key waits for its word; put it "
                "back from a backup, or ask the operator for a token and run `fleetledger agent "
                "enrol`"
            )
        return KeyRotation(key=key, approval=approve(self.current, self._fleet, self._device, key))

    @property
    def newest(self) -> SigningKey | None:
        """The key that signs what is sent last, such as the will."""
        return self.waiting or self.current

    def signer_for(self, body: Message) -> SigningKey | None:
        """Return the key that signs a message; None where this device has none."""
        return self.waiting if isinstance(body, Enrolment | KeyRotation) else self.current

    def describe(self) -> str:
        """Say in words which keys there are; empty where there is none."""
        words = [] if self.current is None else [self.current.verify_key.key_hash.hex()]
        if self.waiting is not None:
            words.append(f"{self.waiting.verify_key.key_hash.hex()} waits for the coordinator")
        return ", ".join(words)

    def enrol(self, token: Token) -> str:
        """Make a key that waits to be confirmed by a token; say what comes next."""
        if self._used == token.invitation:
            return "this device has enrolled with this token already"
        if self._waiting is None or self._waiting.secret != token.secret:
            self._make(token.secret)
        return "the key is made; start the agent, and the coordinator confirms it"

    def rotate(self) -> str:
        """Make a key that waits to follow the one that counts; say what comes next."""
        if self.current is None:
            raise HomeError(
                f"{self._current_file}: there is no key to rotate; ask the operator for a token "
                "and run `fleetledger agent enrol`"
            )
        if self._waiting is None or self._waiting.secret is not None:
            self._make(None)
        return "the new key is made; start the agent, and the coordinator confirms it"

    def adopt(self) -> None:
        """Let the key that waited count, as the coordinator does; raise `HomeError`."""
        waiting, key = self._waiting, self.waiting
        if waiting is None or key is None:
            return
        self._write(self._current_file, key.pem)
        if waiting.secret is not None:
            used = Digest.of(bytes.fromhex(waiting.secret))
            self._write(self._used_file, f"{used}\n".encode("ascii"))
        try:
            self._waiting_file.unlink(missing_ok=True)
            sync_folder(self._folder)
        except OSError as error:
            raise _unwritable(self._waiting_file, error) from error
        self.current, self._waiting, self.waiting = key, None, None

    @property
    def _current_file(self) -> Path:
        return self._folder / "device.pem"

    @property
    def _waiting_file(self) -> Path:
        return self._folder / "waiting.json"

    @property
    def _used_file(self) -> Path:
        return self._folder / "invitation"

    @property
    def _used(self) -> str | None:
        """Digest of the secret of the token by which the present key was enrolled."""
        data = self._read(self._used_file)
        return None if data is None else data.decode("ascii", "replace").strip()

    def _make(self, secret: str | None) -> None:
        key = SigningKey.fresh(device_key_name(self._fleet, self._device))
        waiting = _Waiting(pem=key.pem.decode("ascii"), secret=secret)
        self._write(self._waiting_file, waiting.model_dump_json().encode("ascii"))
        self._waiting, self.waiting = waiting, key

    def _read_current(self) -> SigningKey | None:
        data = self._read(self._current_file)
        return None if data is None else self._key(data)

    def _read_waiting(self) -> _Waiting | None:
        data = self._read(self._waiting_file)
        if data is None:
            return None
        try:
            return _Waiting.model_validate_json(data)
        except ValidationError:
            # Without its cause, which would show what is secret.
            raise HomeError(
                f"{self._waiting_file}: cannot be read; delete it, and run `fleetledger agent "
                "enrol` with a new token, or `agent rotate-key`"
            ) from None

    def _key(self, pem: bytes) -> SigningKey:
        try:
            return SigningKey.from_pem(device_key_name(self._fleet, self._device), pem)
        except SignatureError as error:
            raise HomeError(
                f"{self._folder}: {error}; put the key back from a backup, or delete it and run "
                "`fleetledger agent enrol` with a new token"
            ) from error

    def _read(self, file: Path) -> bytes | None:
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HomeError(f"{file}: cannot be read: {error.strerror}") from error
        if mode & 0o077:
            raise HomeError(
                f"{file}: others may read it (mode {mode:04o}); run `chmod 600 {file}`, and "
                "`fleetledger agent rotate-key` if somebody has"
            )
        return data

    def _write(self, file: Path, data: bytes) -> None:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_private(file, data)
            sync_folder(self._folder)
        except OSError as error:
            raise _unwritable(file, error) from error

    @classmethod
    def beside(cls, home: Path, fleet: FleetId, device: DeviceId) -> Self:
        """Return the keys in the folder `keys` of an agent's home."""
        return cls(home / "keys", fleet, device)


def _unwritable(file: Path, error: OSError) -> HomeError:
    return HomeError(f"{file}: cannot be written: {error.strerror}")
