"""TensorRT's engines of frozen parts, kept between starts.

    state/engines/FROZEN/L4T-TENSORRT-SM-RUNTIME/    mode 0700
        model_*.engine, *.profile, *.timing          as ONNX Runtime writes them
        built.json                                   what of them counts

- An engine is built in a trial (`device_agent.models.trial`) and nowhere else, then used by whoever
has
  the model: the agent, `agent serve`, applications. None of them ever waits for a build.
- The folder's name says of what an engine is good for nothing else: release of Jetson Linux,
  TensorRT, compute capability, ONNX Runtime. What cannot be found out is `unknown` there.
- An engine counts where `built.json` names all files with their digests, and for batches as large
  as those that it was built for. Else it is as if there were none.
- Nothing here comes from the network, and models that bring an engine along are refused
  (`learning.onnx_files.file_rules`).

Source: options of ONNX Runtime's TensorRT execution provider, from 1.17 on.
"""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import Field, ValidationError

from fleetledger.device_agent.home.store.blobs import file_digest, make_folder, write_durably
from fleetledger.device_agent.models.execution.jetson import read_jetson
from fleetledger.device_agent.models.execution.providers import TENSORRT, Provider
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import Digest

RECORD = "built.json"
UNKNOWN = "unknown"
_PREFIX = "model"
"""Of engines' names: left out, the graph's own name is in them, which the model's maker chose."""
_LONGEST_REASON = 500
_MOST_RECORD = 1 << 20
_ASK_SECONDS = 5.0
_PACKAGES = ("tensorrt", "tensorrt-cu12", "tensorrt-cu13")
_LIBRARY = re.compile(r"libnvinfer\.so\.(\d+\.\d+\.\d+(?:\.\d+)?)")


def ask_nvidia_smi() -> str:
    """Return the compute capability of the first GPU, such as 8.6; nothing where none tells it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    command = [program, "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        asked = subprocess.run(  # noqa: S603 - a program of the system, without anybody's words
            command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip().partition("\n")[0]


def environment_name(
    runtime_version: str,
    root: Path = Path("/"),
    ask_capability: Callable[[], str] = ask_nvidia_smi,
    packages: Collection[str] = _PACKAGES,
) -> str:
    """Return what an engine that is built here depends on, as the name of a folder."""
    jetson = read_jetson(root)
    sm = "" if jetson is None or jetson.sm is None else str(jetson.sm)
    if not sm:
        sm = ask_capability().replace(".", "")
    parts = (
        UNKNOWN if jetson is None else jetson.release,
        _tensorrt(root, packages),
        f"sm{sm}" if sm.isdecimal() else UNKNOWN,
        runtime_version,
    )
    return "-".join(re.sub(r"[^0-9A-Za-z.+_]", "_", part) or UNKNOWN for part in parts)


def _tensorrt(root: Path, packages: Collection[str]) -> str:
    """Return all versions of TensorRT that are there: another one among them is another name."""
    names = (path.name for path in root.glob("usr/lib/*-linux-gnu/libnvinfer.so.*"))
    found = {match[1] for name in names if (match := _LIBRARY.fullmatch(name))}
    for package in packages:
        try:
            found.add(version(package))
        except PackageNotFoundError:
            continue
    return "+".join(sorted(found)) or UNKNOWN


class EngineRecord(Strict):
    """What came of a build."""

    batch: int = Field(ge=1)
    """The largest that it was built for."""
    files: dict[str, Digest] = Field(max_length=1000)
    failed: str = Field(default="", max_length=_LONGEST_REASON)
    """Why there is no engine, and none is tried again here; empty where there is one."""


@dataclass(frozen=True)
class EngineFolder:
    """The engine of one frozen part on one environment."""

    path: Path
    frozen: Digest
    batch: int
    """The largest that it must take."""

    @property
    def options(self) -> dict[str, str]:
        """Options of TensorRT's provider: where engines and timings are read and written."""
        return {
            "trt_engine_cache_enable": "True",
            "trt_engine_cache_path": str(self.path),
            "trt_engine_cache_prefix": _PREFIX,
            "trt_timing_cache_enable": "True",
            "trt_timing_cache_path": str(self.path),
        }

    def record(self) -> EngineRecord | None:
        """Return what came of a build that still counts; None where one is to be tried."""
        try:
            with (self.path / RECORD).open("rb") as file:
                record = EngineRecord.model_validate_json(file.read(_MOST_RECORD))
            whole = record.failed or self._files() == record.files
        except (OSError, ValidationError):
            return None
        return record if whole and record.batch >= self.batch else None

    def begin(self) -> None:
        """Make an empty folder for a build; raise `OSError`."""
        self.discard()
        for folder in (self.path.parent.parent, self.path.parent, self.path):
            make_folder(folder)
            folder.chmod(0o700)

    def discard(self) -> None:
        """Remove whatever is there."""
        _remove(self.path)

    def keep(self) -> None:
        """Have what was built count from now on; raise `OSError` where nothing was written."""
        files = self._files()
        if not files:
            raise FileNotFoundError(f"{self.path}: ONNX Runtime has written no engine")
        self._write(EngineRecord(batch=self.batch, files=files))

    def give_up(self, reason: str) -> None:
        """Have no build tried here again, as long as environment and batch stay as they are."""
        self.begin()
        failed = reason[:_LONGEST_REASON] or "it did not run"
        self._write(EngineRecord(batch=self.batch, files={}, failed=failed))

    def _write(self, record: EngineRecord) -> None:
        """Write what came of it, and remove what was built on another environment."""
        write_durably(self.path / RECORD, record.model_dump_json(indent=1).encode())
        for other in self.path.parent.iterdir():
            if other != self.path:
                _remove(other)

    def _files(self) -> dict[str, Digest]:
        """Return the digest of each file but the record; raise `OSError` for what is no file."""
        found: dict[str, Digest] = {}
        for item in sorted(self.path.iterdir()):
            if item.name == RECORD:
                continue
            if not stat.S_ISREG(item.lstat().st_mode):
                raise FileNotFoundError(f"{item}: is no file")
            found[item.name] = file_digest(item)
        return found


@dataclass(frozen=True)
class EngineStore:
    """The engines of a device; who may build one says so."""

    folder: Path
    environment: Callable[[], str]
    """Returns the name of what engines depend on; asked only where TensorRT is there."""
    building: Digest | None = None
    """The frozen part whose engine is built in this process; None in all but a trial."""

    def of(self, frozen: Digest, batch: int) -> EngineFolder:
        """Return where the engine of a frozen part is, or would be."""
        return EngineFolder(self.folder / frozen / self.environment(), frozen, batch)

    def provider(self, frozen: Digest, batch: int) -> Provider:
        """Return TensorRT with the engine of a frozen part, or why it is not to be used."""
        engine = self.of(frozen, batch)
        record = None if frozen == self.building else engine.record()
        if frozen == self.building or (record is not None and not record.failed):
            return Provider(TENSORRT, engine.options)
        if record is not None:
            return Provider(TENSORRT, unfit=f"no engine could be built: {record.failed}")
        return Provider(
            TENSORRT,
            unfit="no engine of this network is here; one is built in a model's trial, or at a "
            "start of the agent",
        )

    def keep(self, frozen: Collection[Digest]) -> None:
        """Remove the engines of all other frozen parts."""
        if not self.folder.is_dir():
            return
        for item in self.folder.iterdir():
            if item.name not in frozen:
                _remove(item)


def _remove(path: Path) -> None:
    """Remove a file or a folder with all in it; what a disk refuses to remove stays."""
    with suppress(OSError):
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            return
        for item in path.iterdir():
            _remove(item)
        path.rmdir()


def engines_in(folder: Path, runtime_version: Callable[[], str]) -> EngineStore:
    """Return the engines in a folder, for this machine and its ONNX Runtime."""
    return EngineStore(folder.absolute(), cache(lambda: environment_name(runtime_version())))
