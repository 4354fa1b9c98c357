"""Chance of a part: its name where that may be known, a secret where it may not.

The secret is made once per installation, readable by the agent's user alone, and never leaves the
device. Nothing else is drawn, so a part that is computed again is the same again; and since the
part's number is left out of its name, the same images give the same groups after a reinstallation.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from fleetledger.device_agent.core.records import Job
from fleetledger.device_agent.errors import StoreError
from fleetledger.device_agent.home.store.blobs import sync_folder
from fleetledger.device_agent.settings import AgentSettings
from fleetledger.methods.statistics.part import PartContext
from fleetledger.schemas.values import DeviceId

SECRET_FILE = "secret"  # noqa: S105 - a file name
SECRET_BYTES = 32


def part_context(settings: AgentSettings, job: Job, state_folder: Path) -> PartContext:
    """Return what the method's device side is told of a part; raise `StoreError`."""
    return context_of(settings.device, settings.contribution_form, job, device_secret(state_folder))


def context_of(device: DeviceId, form: str | None, job: Job, secret: bytes) -> PartContext:
    """Return the same for an installation whose secret is known; `form` is its owner's choice."""
    revision = f"/{job.lineage}/{job.key.stage}/{job.key.part}/{job.revision}"
    return PartContext(
        seed=f"{device}/{job.lineage}/{job.key.stage}".encode(),
        secret=hashlib.sha256(secret + revision.encode()).digest(),
        form=form,
    )


def device_secret(state_folder: Path) -> bytes:
    """Return the installation's secret, made at the first call; raise `StoreError`."""
    path = state_folder / SECRET_FILE
    try:
        if not path.exists():
            _write(path, secrets.token_bytes(SECRET_BYTES))
        secret = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read or written: {error.strerror}") from error
    if len(secret) != SECRET_BYTES:
        raise StoreError(f"{path}: {len(secret)} bytes; delete it, and a new one is made")
    return secret


def _write(path: Path, secret: bytes) -> None:
    """Write a file that is whole under its name, and that others cannot read at any time."""
    scratch = path.with_suffix(".new")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
    sync_folder(path.parent)
