"""Shared by all tests: temporary files, and what those need that are marked by a program."""

import ast
import gc
import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fleetledger.runtime import shown_commands
from fleetledger.transport.brokers import MosquittoBroker, find_mosquitto

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
# What a shell starts in the background is deaf to it, and so would be all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before any test imports it
os.environ.setdefault("FLEETLEDGER_OUTPUT", "table")  # what a person sees on a terminal

PROGRAMS = ("broker", "promtool", "chromium")
"""Marks of tests that need a program, each with a variable of the environment that requires it."""
REQUIRED = frozenset(
    name for name in PROGRAMS if os.environ.get(f"FLEETLEDGER_REQUIRE_{name.upper()}") == "1"
)
LACKING = [name for name in ("torch", "torchvision") if importlib.util.find_spec(name) is None]
HAS_TORCH = "torch" not in LACKING


class WithoutTorch(pytest.Module):
    """A module that is skipped unread, since it imports torch."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        pytest.skip("torch is not installed: pip install 'fleetledger[train]'")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> WithoutTorch | None:
    """Skip a module whose `pytestmark` says that all of it needs torch, where there is none.

    Any other that imports torch fails there, so that no test is skipped wherever tests run.
    """
    if HAS_TORCH or not _all_need_torch(module_path.read_text(encoding="utf-8")):
        return None
    return WithoutTorch.from_parent(parent, path=module_path)


def _all_need_torch(source: str) -> bool:
    marks = [
        ast.unparse(statement.value)
        for statement in (ast.parse(source).body if "pytest.mark.torch" in source else ())
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
    ]
    return any("pytest.mark.torch" in value for value in marks)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests marked `nightly`, but where FLEETLEDGER_NIGHTLY=1."""
    if os.environ.get("FLEETLEDGER_NIGHTLY") == "1":
        return
    left_out = [item for item in items if item.get_closest_marker("nightly") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("nightly") is None]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `torch` or `torchvision` where that is not installed."""
    for name in LACKING:
        if item.get_closest_marker(name) is not None:
            pytest.skip(f"{name} is not installed: pip install 'fleetledger[train]'")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where FLEETLEDGER_REQUIRE_BROKER=1, fail a test marked `broker` that was skipped.

    So with the other programs.

    Unless it needs torch and there is none: it is run where the tests are that need torch.
    """
    report = yield
    marks = {mark.name for mark in item.iter_markers()}
    elsewhere = "torch" in marks and not HAS_TORCH
    required = sorted(REQUIRED & marks)
    if required and report.skipped and not elsewhere:
        report.outcome = "failed"
        report.longrepr = f"needs the {required[0]}, and was skipped: {report.longrepr}"
    return report


def pytest_collection_finish() -> None:
    """Keep thousands of tests and modules from what garbage collections look through.

    An agent collects after each piece of work, to give memory back (device_agent/home/memory.py):
    with all tests in the same process that took it longer than the work.
    """
    _keep_from_collections()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """At the end of each file keep what it has imported and cached from them, too."""
    yield
    if nextitem is not None and nextitem.path != item.path:
        _keep_from_collections()


def _keep_from_collections() -> None:
    gc.collect()
    gc.freeze()


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


@pytest.fixture(autouse=True)
def _no_home_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a test know no home that a command of another test was given."""
    monkeypatch.setattr(shown_commands, "_given", {})
