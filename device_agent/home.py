"""The agent's home: the folder with its settings, its state, and the lock of who runs there."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetledger.device_agent.errors import HomeError
from fleetledger.device_agent.settings import AgentSettings
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.private_file import OWNER_AND_GROUP, make_home
from fleetledger.schemas.roots import SignedRoot
from fleetledger.schemas.settings_file import find_secret, load_settings
from fleetledger.schemas.toml_text import toml_value
from fleetledger.schemas.user_text import decode_text
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.schemas.variants import VariantChoice
from fleetledger.schemas.whole_file import write_whole
from fleetledger.transport.certificates import WatchedCertificate, certificates_of
from fleetledger.transport.tls import TLS_LINES, TlsSettings

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
        return self.folder / "state"

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
        return self.folder / "status.json"

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

    def password_file(self) -> Path | None:
        """Return the file of the broker's password, tried out; None where none is set.

        Raises `SettingsError` if others may read it, or nobody can.
        """
        return find_secret(self.folder, self.settings.broker.password_file)


TEMPLATE = """\
# Settings of a fleetledger agent. Relative paths begin at this file's folder.

# Name of this device: 1 to 64 of A-Z, a-z, 0-9, '_' and '-'. Also its user name at the broker.
device = "{device}"
# Name of the fleet, as the operator gave it: 1 to 63 of a-z, 0-9 and '-'.
fleet = "{fleet}"
# What this device sends, of the forms that the fleet allows. "estimated" is the smallest for few
# images per class, and tells the least of single images. Left out, the operator decides.
# contribution_form = "estimated"
# The coordinator's public key (keys/coordinator.pub in its home). With it, a receipt must prove
# that the ledger has what this device gave, and that the ledger only grew since.
{coordinator_key}
# The fleet's root (trust/root-1.json in the coordinator's home). With it, only models are installed
# that a release key of the fleet has signed for this device.
{root}

[broker]
host = {host}
port = {port}
# A file that holds the broker's password for this device on one line (chmod 600).
{password_file}

{tls}

[data]
{data}

[model]
# ONNX Runtime's execution providers, in the order in which they are tried.
providers = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
# Threads of one model, and images per run: more is faster and takes more memory.
threads = 1
batch = 8
# After so long without work for it a model on the processor leaves memory until there is some.
unload_seconds = 10
# A new model is loaded and tested in a process of its own first, which may take so many seconds,
# and half of this machine's memory unless trial_memory_mib says otherwise. It is not taken where a
# sample takes more than sample_seconds, or, of a model with the frozen part of the former one, more
# than slowdown times as long. Where TensorRT builds an engine of it first, that may take
# build_seconds more; it is built once, and kept.
trial = true
trial_seconds = 300
build_seconds = 1800
slowdown = 2.5
sample_seconds = 10
# After a switch the agent must run for so long; if it is started three times before that, it goes
# back to the former model.
probation_seconds = 60
# Where a rollout has two models compared: most held-out images, as many others, and most seconds.
compare_images = 1000
compare_seconds = 300
# Beside these it may compare them on what applications show to `agent serve`: so many images are
# kept for that on this device, one in so many seconds; 0 keeps none.
compare_live = 0
compare_live_seconds = 60
# What the frozen part of a model runs in, where the model has it: "reference" is float32, "fp16"
# half precision, "int8" 8-bit integers; "auto" takes fp16 with a GPU and int8 without.
variant = "{variant}"
# A new model that did not come within so long is given up, and the fleet is told.
deadline_hours = 24

[detection]
# Report when the model is less sure of new images than it was: "sequential" gathers evidence image
# by image, "baseline" compares batches with this device's own history, "fixed-rise" is that of the
# papers, "off" does not look.
mode = "sequential"
# On average at most one false alarm in so many quiet images.
quiet_images = 1000

[inbox]
# Whether images that applications show to the model, and that it doubts, are kept on this device
# until their owner names them: at most so many, of so many megabytes, for so many days, one in so
# many seconds, and of a scene that stands still one.
keep = false
images = 200
megabytes = 64
days = 30
interval_seconds = 10

[training]
# What a method keeps of old classes on a frozen backbone: "images" remembers which images of the
# folder they are, "features" keeps their features, which stay when an image is deleted.
exemplars = "images"
# Most that features take on the disk, so that each image is computed once; the oldest go first.
feature_cache_megabytes = 256
# Where networks train: "cpu", "cuda", or "auto", a GPU where torch finds one.
device = "auto"
# Less memory, and less time on most GPUs: compute in bfloat16 where that is safe.
bfloat16 = false

[trust]
# With the coordinator's key: tell when nothing new that it signed came for so many hours.
silent_hours = 24

[files]
# Models and other large files may come by HTTPS from where the coordinator says, instead of through
# the broker; they are checked all the same. false, or the names of hosts, limits that.
https = true
# hosts = ["files.example.org"]

[health]
# How often the coordinator is told how this machine is: temperatures, throttling, free disk,
# memory, how long the model takes; 0 for never.
seconds = 60
# What node_exporter's textfile collector reads, in a folder that this program may write into.
# textfile = "/var/lib/node_exporter/fleetledger.prom"

[tags]
# What this device is told apart by: names of a-z, 0-9, "_", "." and "-", with values of letters,
# digits and "_.:/+-". The operator can choose devices by them, and can put others over them.
# site = "orchard-1"

[policy]
# Whether features of single images, or moments of a class's features, may leave this device. A
# fleet whose method needs them is told that this device gives none.
publish_features = false
# Whether gradients of perturbed images may leave it, to the fleet's proxy, which makes images of
# them. Without them the device trains and answers all the same, and the proxy learns nothing of it.
publish_gradients = false
# Whether images themselves may leave it, without their classes: some methods distil on images that
# every device of the fleet gets. A device that shares none trains and answers all the same.
publish_images = false
"""


_DATA = """\
# One folder per class, named after it, with that class's images, such as cat/1.jpg
folder = {folder}
# The same for images that are never learned from; the model's accuracy is measured on them.
{evaluation}
# What counts: "pictures", "text" for .txt files, or "scenes", pictures with masks: then the folder
# holds images/NAME.jpg, masks/NAME.png and a classes.toml that names the masks' values.
samples = "pictures"
# How often the folders are looked at.
scan_seconds = 5"""
_NO_DATA = """\
# This device runs models and has nothing to learn from.
samples = "none"
# One folder per class, named after it: images that the model's accuracy is measured on here.
{evaluation}"""
_NO_EVALUATION = '# evaluation_folder = "evaluation"'


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

    @property
    def data_lines(self) -> str:
        """What stands in the section `[data]`."""
        evaluation = (
            f"evaluation_folder = {toml_value(self.evaluation_folder)}"
            if self.evaluation_folder
            else _NO_EVALUATION
        )
        if self.data_folder is None:
            return _NO_DATA.format(evaluation=evaluation)
        return _DATA.format(folder=toml_value(self.data_folder), evaluation=evaluation)


def write_home(folder: Path, new: NewHome) -> Path:
    """Make `folder` with a commented settings file and return the file's path.

    Raises `HomeError` if there are settings already, or the folder cannot be written.
    """
    path = folder / SETTINGS_FILE
    line = f"password_file = {toml_value(new.password_file)}" if new.password_file else ""
    text = TEMPLATE.format(
        device=new.device,
        fleet=new.fleet,
        host=toml_value(new.host),
        port=new.port,
        data=new.data_lines,
        variant=new.variant,
        password_file=line or '# password_file = "password"',
        tls=TLS_LINES if new.tls is None else new.tls.toml(),
        root=f"root = {toml_value(ROOT_FILE)}" if new.root else f'# root = "{ROOT_FILE}"',
        coordinator_key=(
            f"coordinator_key = {toml_value(new.coordinator_key)}"
            if new.coordinator_key
            else '# coordinator_key = "FLEET/coordinator+HASH+KEY"'
        ),
    )
    if path.exists():
        raise HomeError(f"{path}: is there already; edit it, or choose another --home")
    try:
        make_home(folder, OWNER_AND_GROUP)
        if new.root is not None:
            write_whole(folder / ROOT_FILE, new.root.canonical_bytes() + b"\n")
        write_whole(path, text)
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
