"""Sets a device up by its kit: the folder that `fleetledger coordinator provision` made for it.

- The settings of a home that is there already stay as they are; it must be this device's.
- What logs the device in is replaced by what the kit has, so a newer kit mends an older one.
- Run again, it does what was not done yet.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from fleetledger.device_agent.cli.enrolment import enrol
from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home.home import SETTINGS_FILE, AgentHome, NewHome, write_home
from fleetledger.device_agent.home.pinned_root import read_root
from fleetledger.runtime.private_file import OWNER_AND_GROUP, make_home, write_private
from fleetledger.runtime.regular_files import read_regular
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.runtime.systemd_units import DEVICE_UNITS, PROGRAM, ServiceUnit, UnitKind
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas import kits
from fleetledger.schemas.message import explain
from fleetledger.transport.tls import TlsSettings

_LONGEST_FILE = 1 << 20
_GPU_GROUPS = ("video", "render")


@dataclass(frozen=True)
class SetUpStep:
    """Something that is done, and how to say it."""

    text: str
    do: Callable[[], None]


@dataclass(frozen=True)
class KitInstallation:
    """A kit, and where it is to be installed."""

    folder: Path
    kit: kits.Kit
    home: Path
    unit_folder: Path | None
    user: str | None

    @classmethod
    def of(
        cls, folder: Path, home: Path, unit_folder: Path | None, user: str | None
    ) -> KitInstallation:
        """Read a kit; raise `SettingsError`, or `HomeError` where it cannot be installed so."""
        _check_files(folder)
        kit = kits.read_kit(folder)
        here = home.absolute()
        if (here / SETTINGS_FILE).exists():
            known = AgentHome.open(here).settings
            if (known.device, known.fleet) != (kit.device, kit.fleet):
                raise HomeError(
                    f"{home}: is the home of {known.device} of {known.fleet}, and the kit is for "
                    f"{kit.device} of {kit.fleet}; take this device's kit, or give another --home"
                )
        if user is not None and _ids(user) is None:
            raise HomeError(
                f"user: there is no {user!r} here; make it with `useradd --system --home-dir "
                f"{here} --shell /usr/sbin/nologin {user}`"
            )
        if unit_folder is not None and user is None and os.geteuid() == 0:
            raise HomeError("user: the agent needs no rights of root; say whose, as --user NAME")
        return cls(folder, kit, here, unit_folder, user)

    @property
    def question(self) -> str:
        """What the owner is to confirm of a new home; empty where the home is there already."""
        if (self.home / SETTINGS_FILE).exists():
            return ""
        kit = self.kit
        reads = [item for item in (kit.data, kit.evaluation) if item is not None]
        outside = [item for item in reads if not _is_inside(self.home, item)]
        read = f", and read samples in {' and '.join(outside)}" if outside else ""
        return f"Speak with the broker at {kit.host}:{kit.port} as {kit.device}{read}?"

    def steps(self) -> Iterator[SetUpStep]:
        """Return what is to be done, in order."""
        if (self.home / SETTINGS_FILE).exists():
            yield SetUpStep(f"keep {self.home / SETTINGS_FILE}", lambda: None)
        else:
            yield SetUpStep(f"write {self.home / SETTINGS_FILE}", self._write_home)
        for name in (kits.CA_FILE, kits.CERTIFICATE_FILE, kits.KEY_FILE, kits.KIT_PASSWORD_FILE):
            if (self.folder / name).exists():
                yield SetUpStep(f"copy {name} into {self.home}", self._copying(name))
        if (self.folder / kits.TOKEN_FILE).exists():
            yield SetUpStep("make a key, to be confirmed by the kit's token", self._enrol)
        if self.user is not None:
            yield SetUpStep(f"give {self.home} to {self.user}", self._give)
        if self.unit_folder is not None:
            for kind in DEVICE_UNITS:
                file = self.unit_folder / kind.file_name
                yield SetUpStep(f"write {file}", partial(self._write_unit, kind, file))

    def _write_home(self) -> None:
        kit, root = self.kit, self.folder / kits.KIT_ROOT_FILE
        certificate = (self.folder / kits.CERTIFICATE_FILE).exists()
        password = (self.folder / kits.KIT_PASSWORD_FILE).exists()
        make_home(self.home, OWNER_AND_GROUP)
        write_home(
            self.home,
            NewHome(
                device=kit.device,
                fleet=kit.fleet,
                host=kit.host,
                port=kit.port,
                data_folder=kit.data,
                evaluation_folder=kit.evaluation,
                variant=kit.variant or "reference",
                files_host=kit.files,
                password_file=kits.KIT_PASSWORD_FILE if password else None,
                root=read_root(root, kit.fleet) if root.exists() else None,
                tls=TlsSettings(
                    ca_file=Path(kits.CA_FILE),
                    certificate_file=Path(kits.CERTIFICATE_FILE) if certificate else None,
                    key_file=Path(kits.KEY_FILE) if certificate else None,
                ),
            ),
        )

    def _copying(self, name: str) -> Callable[[], None]:
        def copy() -> None:
            try:
                data = read_regular(self.folder / name, _LONGEST_FILE)
                write_private(self.home / name, data)
                if name not in kits.PRIVATE_FILES:
                    (self.home / name).chmod(0o644)
            except OSError as error:
                raise HomeError(f"{self.home / name}: cannot be copied: {error}") from error

        return copy

    def _enrol(self) -> None:
        enrol(self.home, read_regular(self.folder / kits.TOKEN_FILE, _LONGEST_FILE).decode("ascii"))

    def _give(self) -> None:
        assert self.user is not None
        try:
            for path in (self.home, *sorted(self.home.rglob("*"))):
                if not path.is_symlink():
                    shutil.chown(path, *(_ids(self.user) or ()))
        except OSError as error:
            raise HomeError(
                f"{self.home}: cannot be given to {self.user}: {error.strerror}; run it as root"
            ) from error

    def _write_unit(self, kind: UnitKind, file: Path) -> None:
        beside = Path(sys.executable).with_name("fleetledger")
        unit = ServiceUnit(
            kind,
            home=self.home,
            program=beside if beside.exists() else PROGRAM,
            user=self.user or pwd.getpwuid(os.geteuid()).pw_name,
            groups=tuple(name for name in _GPU_GROUPS if _has_group(name)),
            data=None if self.kit.data is None else self.home / self.kit.data,
        )
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, unit.text())
        except OSError as error:
            raise HomeError(
                f"{file}: cannot be written: {error.strerror}; run it as root, or give another "
                "--unit"
            ) from error


def tls_settings(
    system: bool, ca: Path | None, certificate: Path | None, key: Path | None
) -> TlsSettings | None:
    """Return the section that options ask for, None where they ask for none.

    Raises `SettingsError` for a certificate without its key, or a key without its certificate.
    """
    if not system and ca is None and certificate is None and key is None:
        return None
    try:
        return TlsSettings(ca_file=ca, certificate_file=certificate, key_file=key)
    except ValidationError as error:
        raise SettingsError(f"--certificate-file, --key-file: {explain(error)}") from error


def _check_files(folder: Path) -> None:
    """Refuse a kit that has links: they would bring other files of this machine into the home."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_symlink():
            raise HomeError(f"{path}: is a link; a kit has files of its own, so take it again")


def _is_inside(home: Path, data: str) -> bool:
    return (home / data).resolve().is_relative_to(home.resolve())


def _ids(user: str) -> tuple[int, int] | None:
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        return None
    return found.pw_uid, found.pw_gid


def _has_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True
