"""Gathers the wheels of a bundle with pip, for a machine that is not this one.

pip chooses wheels for another platform, but judges conditions such as `python_version < "3.11"` by
the Python that it runs on. So what the wheels ask for is read again here, by the target's own
conditions, and what is missing is fetched until nothing is.
"""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from fleetledger.coordinator.bundles.targets import Target
from fleetledger.coordinator.errors import BundleError

_MOST_TURNS = 8


@dataclass(frozen=True)
class Wheelhouse:
    """Where wheels are gathered, and for what."""

    folder: Path
    target: Target
    python: str
    constraints: Path | None = None
    """A file of pip's that pins versions."""

    def gather(self, own: Path, runtime: Path | None, extras: tuple[str, ...] = ()) -> None:
        """Fetch what the wheel `own` needs there, with the runtime; raise `BundleError`.

        `runtime` is the runtime's own wheel, where it was fetched by hand; `extras` are of `own`.
        """
        asked = set(_requirements(own))
        wanted = [str(own), *sorted(_of_extras(asked, extras))]
        if runtime is not None:
            self._download(wanted)
            self._download([str(runtime)], "--no-deps")
        elif self.target.runtime_index is not None:
            self._download(wanted)
            index = ("--isolated", "--index-url", self.target.runtime_index)
            self._download([self.target.runtime], "--no-deps", *index)
        else:
            self._download([*wanted, self.target.runtime])
        for _ in range(_MOST_TURNS):
            missing = sorted(set(self._missing()))
            if not missing:
                return
            self._download(missing)
        raise BundleError(f"wheels: pip does not come to an end; missing are {', '.join(missing)}")

    def pins(self) -> Iterator[tuple[str, str, Path]]:
        """Return name and version of each wheel, and its file."""
        for file in sorted(self.folder.glob("*.whl")):
            name, version = wheel_names(file)
            yield name, version, file

    def _download(self, wanted: list[str], *options: str) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", *options, *wanted]
        command += ["--only-binary", ":all:", "--dest", str(self.folder)]
        command += ["--implementation", "cp", "--python-version", self.python]
        for platform in self.target.platforms:
            command += ["--platform", platform]
        if self.constraints is not None:
            command += ["--constraint", str(self.constraints)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command, no shell
        if done.returncode != 0:
            raise BundleError(
                f"wheels: pip found not all of {', '.join(wanted)}: {done.stderr.strip()}; a "
                "runtime that no index has is given by --runtime FILE"
            )

    def _missing(self) -> Iterator[str]:
        """Say what wheels ask for, by the target's conditions, that is not there."""
        there = {name for name, _, _ in self.pins()}
        for _, _, file in self.pins():
            for asked in _requirements(file):
                marker = asked.marker
                if marker is not None and not marker.evaluate(self._environment()):
                    continue
                if canonicalize_name(asked.name) not in there:
                    yield f"{asked.name}{asked.specifier}"

    def _environment(self) -> dict[str, str]:
        return {
            "extra": "",
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": self.target.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


def wheel_names(file: Path) -> tuple[str, str]:
    """Return name and version of a wheel; raise `BundleError` for a file that is none."""
    try:
        name, version, _, _ = parse_wheel_filename(file.name)
    except InvalidWheelFilename as error:
        raise BundleError(f"{file}: is no wheel: {error}") from error
    return name, str(version)


def _of_extras(asked: Iterable[Requirement], extras: tuple[str, ...]) -> Iterator[str]:
    """Say what extras ask for; raise `BundleError` for one that a package does not have."""
    asked = [one for one in asked if one.marker is not None]
    for extra in extras:
        found = [one for one in asked if _is_of(one, extra)]
        if not found:
            raise BundleError(f"--extra {extra}: the wheel has none of that name")
        yield from (f"{one.name}{one.specifier}" for one in found)


def _is_of(asked: Requirement, extra: str) -> bool:
    assert asked.marker is not None
    named = {"extra": extra}
    return asked.marker.evaluate(named) and not asked.marker.evaluate({"extra": ""})


def _requirements(file: Path) -> Iterable[Requirement]:
    with zipfile.ZipFile(file) as opened:
        (name,) = (
            name
            for name in opened.namelist()
            if name.endswith(".dist-info/METADATA") and name.count("/") == 1
        )
        metadata = email.message_from_bytes(opened.read(name))
    return [Requirement(str(line)) for line in metadata.get_all("Requires-Dist", [])]
