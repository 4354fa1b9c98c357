"""The agent's home: the folder with its settings, its state, and the lock of who runs there."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetledger.device_agent import settings as sections
from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.home.status_file import STATE_FOLDER, STATUS_FILE
from fleetledger.device_agent.settings import AgentSettings
from fleetledger.runtime.commented_toml import commented_toml
from fleetledger.runtime.private_file import OWNER_AND_GROUP, make_home
from fleetledger.runtime.settings_file import load_settings
from fleetledger.runtime.toml_text import toml_value
from fleetledger.runtime.user_text import decode_text
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.roots import SignedRoot
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.schemas.variants import VariantChoice
from fleetledger.transport.certificates import WatchedCertificate, certificates_of
from fleetledger.transport.tls import TlsSettings

SETTINGS_FILE = "agent.toml"
ROOT_FILE = "root.json"


@dataclass(frozen=True)
class AgentHome:
    """The agent's folder with its settings; relative paths begin at the folder."""

    folder: Path
    settings: AgentSettings

    @classmethod
    def open(cls, folder: Path) -> AgentHome:
        """Read `<folder>/agent.toml`; raise `SettingsError` that names file, field and value."""
        return cls(folder, load_settings(folder / SETTINGS_FILE, AgentSettings))

    @property
    def settings_file(self) -> Path:
        """Where the settings are."""
        return self.folder / SETTINGS_FILE

    @property
    def state_folder(self) -> Path:
        """What the agent keeps: database, files of models, slots."""
        return self.folder / STATE_FOLDER

    @property
    def feature_cache(self) -> Path:
        """Features of a frozen backbone; may be deleted while no agent runs."""
        return self.state_folder / "features.db"

    @property
    def engines_folder(self) -> Path:
        """Engines that TensorRT has built here; may be deleted while no agent runs."""
        return self.state_folder / "engines"

    @property
    def inbox_folder(self) -> Path:
        """Images that the model doubts and that nobody has named yet."""
        return self.folder / "inbox"

    @property
    def live_folder(self) -> Path:
        """A sample of what applications showed to the model."""
        return self.state_folder / "live"

    @property
    def status_file(self) -> Path:
        """Written by the running agent, read by `agent status`."""
        return self.folder / STATUS_FILE

    @property
    def data_folder(self) -> Path:
        """The folder of class-named folders, or of scenes; never looked at without samples."""
        return self.folder / (self.settings.data.folder or "data")

    @property
    def evaluation_folder(self) -> Path | None:
        """The folder of held-out images, if there is one."""
        folder = self.settings.data.evaluation_folder
        return self.folder / folder if folder is not None else None

    def certificates(self) -> Iterator[WatchedCertificate]:
        """Yield those by which the broker and this device know each other."""
        way_out = "ask the fleet's operator for a new kit"
        return certificates_of(self.settings.broker.tls, self.folder, way_out)


_TITLE = "Settings of a fleetledger agent. Relative paths begin at this file's folder."


@dataclass(frozen=True)
class NewHome:
    """What `agent init` writes into the settings file."""

    device: DeviceId
    fleet: FleetId
    host: str = "127.0.0.1"
    port: int = 1883
    data_folder: str | None = "data"
    """None where the device has nothing to learn from."""
    password_file: str | None = None
    coordinator_key: VerifyKey | None = None
    root: SignedRoot | None = None
    tls: TlsSettings | None = None
    evaluation_folder: str | None = None
    variant: VariantChoice = "reference"
    files_host: str | None = None
    """Of the coordinator, where it is not the broker's."""

    @property
    def settings(self) -> AgentSettings:
        """What the file says."""
        return AgentSettings(
            device=self.device,
            fleet=self.fleet,
            coordinator_key=self.coordinator_key,
            root=None if self.root is None else Path(ROOT_FILE),
            broker=sections.AgentBrokerSettings(
                host=self.host,
                port=self.port,
                password_file=_path(self.password_file),
                tls=self.tls,
            ),
            data=sections.AgentDataSettings(
                folder=_path(self.data_folder),
                evaluation_folder=_path(self.evaluation_folder),
                samples="none" if self.data_folder is None else "pictures",
            ),
            model=sections.ModelSettings(variant=self.variant),
            files=sections.FilesSettings(coordinator=self.files_host),
        )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def write_home(folder: Path, new: NewHome) -> Path:
    """Make `folder` with a commented settings file and return the file's path.

    Raises `HomeError` if there are settings already, or the folder cannot be written.
    """
    path = folder / SETTINGS_FILE
    if path.exists():
        raise HomeError(f"{path}: is there already; edit it, or choose another --home")
    try:
        make_home(folder, OWNER_AND_GROUP)
        if new.root is not None:
            write_whole(folder / ROOT_FILE, new.root.canonical_bytes() + b"\n")
        write_whole(path, commented_toml(new.settings, _TITLE))
        for samples in filter(None, (new.data_folder, new.evaluation_folder)):
            (folder / samples).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HomeError(f"{folder}: cannot be written: {error.strerror}") from error
    return path


def write_coordinator_key(home: AgentHome, key: VerifyKey) -> None:
    """Set `coordinator_key` in a home's settings, where it is not set yet; all else stays.

    Raises `HomeError` where it is set to another key.
    """
    known, file = home.settings.coordinator_key, home.settings_file
    if known == key:
        return
    if known is not None:
        raise HomeError(
            f"{file}: coordinator_key: has the hash {known.key_hash.hex()}, and the token is of a "
            f"coordinator with {key.key_hash.hex()}; delete the line if you trust that one"
        )
    text = _with_top_line(decode_text(file.read_bytes()), f"coordinator_key = {toml_value(key)}")
    scratch = file.with_name(f"{file.name}.new")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.chmod(stat.S_IMODE(file.stat().st_mode))
        if load_settings(scratch, AgentSettings).coordinator_key != key:
            raise HomeError(f"{file}: add this line above the first section: coordinator_key = …")
        scratch.replace(file)
    except OSError as error:
        raise HomeError(f"{file}: cannot be written: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)


def _with_top_line(text: str, line: str) -> str:
    """Return settings with a line in place of its commented form, or above the first section."""
    name = line.split(" ", 1)[0]
    commented = re.compile(rf"^# *{name} *=.*$", re.MULTILINE)
    if commented.search(text):
        return commented.sub(lambda _: line, text, count=1)
    section = re.search(r"^\s*\[", text, re.MULTILINE)
    place = len(text) if section is None else section.start()
    return f"{text[:place]}{line}\n{text[place:]}"


def lock_home(folder: Path) -> int:
    """Take the agent's lock and return its file handle; the kernel frees it when we end.

    Raises `HomeError` while another agent runs on the same folder, which would send everything
    twice.
    """
    import fcntl  # noqa: PLC0415 - POSIX only, and needed by a running agent only

    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise HomeError(f"{folder}: another agent runs here; stop it first") from error
    return handle
