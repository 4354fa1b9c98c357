"""Shared by all tests: where temporary files lie, and a Mosquitto for those marked `broker`."""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
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

REQUIRE_BROKER = os.environ.get("FLEETLEDGER_REQUIRE_BROKER") == "1"
HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where FLEETLEDGER_REQUIRE_BROKER=1, fail a test marked `broker` that was skipped.

    Unless it needs torch and there is none: it is run where the tests are that need torch.
    """
    report = yield
    if REQUIRE_BROKER and report.skipped and item.get_closest_marker("broker") is not None:
        why = str(report.longrepr)
        if HAS_TORCH or "torch" not in why:
            report.outcome = "failed"
            report.longrepr = f"needs the broker, and was skipped: {why}"
    return report


BROKER_USERS = ("dev-a", "dev-b", "dev-c")


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MosquittoBroker]:
    """A running Mosquitto with the devices `BROKER_USERS` and the coordinator.

    Without the program the test is skipped.
    """
    if find_mosquitto() is None:
        message = "mosquitto is not installed: `apt install mosquitto`"
        pytest.skip(message)
    with MosquittoBroker(tmp_path_factory.mktemp("mosquitto"), BROKER_USERS) as broker:
        yield broker
