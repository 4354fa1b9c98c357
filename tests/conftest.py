"""Shared by all tests: where temporary files lie, and a Mosquitto for those marked `broker`."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from transport.brokers import MosquittoBroker, find_mosquitto

settings.register_profile("any machine", deadline=None)  # a busy one takes longer than 200 ms
settings.load_profile("any machine")

_MEMORY = Path("/dev/shm")
_ROOM = 4 * 1024**3


def _put_temporary_files_into_memory() -> None:
    """Spare thousands of commits the disk, where there is a roomy file system in memory.

    TMPDIR, where it is set, is left as it is.
    """
    if "TMPDIR" in os.environ or not _MEMORY.is_dir():
        return
    if os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC or shutil.disk_usage(_MEMORY).free < _ROOM:
        return
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


_put_temporary_files_into_memory()

BROKER_USERS = ("dev-a", "dev-b", "dev-c")


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MosquittoBroker]:
    """A running Mosquitto with the devices `BROKER_USERS` and the coordinator.

    Without the program the test is skipped, or fails where FLEETLEDGER_REQUIRE_BROKER=1.
    """
    if find_mosquitto() is None:
        message = "mosquitto is not installed: `apt install mosquitto`"
        if os.environ.get("FLEETLEDGER_REQUIRE_BROKER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with MosquittoBroker(tmp_path_factory.mktemp("mosquitto"), BROKER_USERS) as broker:
        yield broker
