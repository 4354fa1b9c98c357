"""`agent doctor`: what this device can run, what is missing, and the command that mends it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import ClassVar, Literal

from fleetledger.device_agent.core.policy import RESTART
from fleetledger.device_agent.errors import MissingError, SourceError
from fleetledger.device_agent.home.health.machine import Machine
from fleetledger.device_agent.home.home import SETTINGS_FILE, AgentHome
from fleetledger.device_agent.home.pinned_root import pinned_of
from fleetledger.device_agent.home.status_file import Status, read_status
from fleetledger.device_agent.kinds import NOTHING, PICTURES, SampleKind
from fleetledger.device_agent.models.execution.jetson import advise, read_jetson
from fleetledger.device_agent.models.execution.provider_probe import ProbeAnswer, probe
from fleetledger.device_agent.models.execution.providers import CPU
from fleetledger.device_agent.models.inference.installed_model import describe_runtime
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.program.capabilities import OPTIONAL_FEATURES
from fleetledger.device_agent.program.main import mqtt_connect
from fleetledger.device_agent.samples.array_files import Shape, rows_of
from fleetledger.device_agent.samples.sources.masks import load_mask_classes
from fleetledger.device_agent.samples.sources.scenes import CLASSES, IMAGES, MASKS, named_files
from fleetledger.device_agent.settings import DEFAULT_PROVIDERS
from fleetledger.learning.errors import ArrayError
from fleetledger.methods.registry import descriptor
from fleetledger.methods.requirements import lacking, unable
from fleetledger.runtime.command_report import Report
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.pip_command import pip_install
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.reports import Problem
from fleetledger.transport.certificates import ending
from fleetledger.transport.errors import TransportError

OLDEST_PYTHON = (3, 10)
LITTLE_SPACE = 500 << 20
"""Free bytes below which a model or a payload may not fit."""
BROKER_SECONDS = 8.0
"""How long to wait for the broker: enough to try both versions of MQTT."""
_TORCH = "torch"
_MARKS = {"ok": "ok     ", "note": "note   ", "missing": "MISSING"}

Verdict = Literal["ok", "note", "missing"]


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `way_out` is the command, or the deed, that mends it."""

    about: str
    verdict: Verdict
    text: str
    way_out: str = ""


class DoctorReport(Report):
    """What `agent doctor` shows."""

    lines_field: ClassVar[str | None] = "findings"
    ready: bool
    """Nothing is missing."""
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> DoctorReport:
        """Return the report of all that was looked at."""
        ready = all(finding.verdict != "missing" for finding in findings)
        return cls(ready=ready, findings=tuple(findings))

    def above(self) -> Iterator[str]:
        """Return each finding, and what mends it."""
        for finding in self.findings:
            yield f"{_MARKS[finding.verdict]} {finding.about}: {finding.text}"
            if finding.way_out:
                yield f"        -> {finding.way_out}"


def examine(home_folder: Path) -> list[Finding]:
    """Look at everything that an agent needs; the broker is tried for a few seconds."""
    findings = [_python(), *_jetson(), _numpy()]
    try:
        home = AgentHome.open(home_folder)
    except SettingsError as error:
        settings = Finding("settings", "missing", str(error), _way_to_settings(home_folder))
        return [
            *findings,
            _runtime(DEFAULT_PROVIDERS),
            *_providers(DEFAULT_PROVIDERS),
            *_method(None),
            settings,
        ]
    findings += [
        _runtime(home.settings.model.providers),
        *_providers(home.settings.model.providers),
    ]
    if home.settings.data.kind is not NOTHING:
        findings += _method(read_status(home.status_file))
    findings.append(Finding("settings", "ok", f"{home.settings.device} of {home.settings.fleet}"))
    findings += _privacy(home)
    findings += [*_root(home), _broker(home), *_certificates(home), *_folders(home), _space(home)]
    findings += _candidate(home)
    return findings


def _privacy(home: AgentHome) -> Iterator[Finding]:
    """Say how numbers leave this device, where its owner asks for masks or they are in use."""
    asks, status = home.settings.privacy, read_status(home.status_file)
    least = f"summed with no fewer than {count_of(asks.least_cohort - 1, 'other device')}"
    if asks.masks == "required":
        yield Finding("privacy", "ok", f"nothing is given but behind masks, {least}")
    elif status is not None and status.masks:
        yield Finding("privacy", "ok", f"behind masks, {least}: {status.masks}")


def _root(home: AgentHome) -> Iterator[Finding]:
    """Say whether the fleet's root can be read, where the owner gave one."""
    try:
        pinned = pinned_of(home)
    except SettingsError as error:
        yield Finding("root", "missing", str(error), "copy the fleet's root into this folder again")
        return
    if pinned is not None:
        version = pinned.root.document.version
        yield Finding("root", "ok", f"version {version}; only released models are installed")


def _python() -> Finding:
    text = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(str(number) for number in OLDEST_PYTHON)
        return Finding("python", "missing", text, f"install Python {oldest} or newer")
    return Finding("python", "ok", f"{text} on {platform.machine()}")


def _jetson() -> Iterator[Finding]:
    """Say which Jetson this is and what there is for it; nothing on another machine."""
    jetson = read_jetson()
    if jetson is None:
        return
    advice = advise(jetson)
    text = f"Jetson Linux {jetson.release} ({advice.jetpack})"
    if jetson.sm is not None:
        text += f", GPU of SM {jetson.sm}"
    if advice.is_served:
        yield Finding("jetson", "ok", text)
    else:
        yield Finding("jetson", "note", text, advice.runtime)


def _way_to_settings(home_folder: Path) -> str:
    if (home_folder / SETTINGS_FILE).exists():
        return f"edit {home_folder / SETTINGS_FILE}"
    return f"fleetledger agent init --device NAME --fleet NAME --home {quote(str(home_folder))}"


def _numpy() -> Finding:
    try:
        import numpy  # noqa: PLC0415 - its absence is a finding
    except ImportError as error:
        return Finding("numpy", "missing", str(error), pip_install())
    return Finding("numpy", "ok", numpy.__version__)


def _runtime(wanted: tuple[str, ...]) -> Finding:
    """Look for ONNX Runtime and the providers that the settings name."""
    try:
        version, available = describe_runtime()
    except MissingError:
        return Finding("onnxruntime", "missing", "not installed", runtime_command())
    usable = [name for name in wanted if name in available]
    text = f"{version}, will try {', '.join(usable) or 'nothing'}"
    if not usable:
        return Finding("onnxruntime", "missing", text, "add 'CPUExecutionProvider' to [model]")
    if usable == ["CPUExecutionProvider"] and has_gpu():
        return Finding("onnxruntime", "note", f"{text}; there is a GPU", runtime_command())
    return Finding("onnxruntime", "ok", text)


def _providers(wanted: tuple[str, ...]) -> Iterator[Finding]:
    """Run a model of two nodes on each provider that the settings name and that is there."""
    try:
        _, available = describe_runtime()
    except MissingError:
        return
    for name in wanted:
        if name in available:
            yield _provider(name, probe(name), Machine().conditions().described)


def _provider(name: str, answer: ProbeAnswer, conditions: str = "") -> Finding:
    if answer.failed:
        verdict: Verdict = "missing" if name == CPU else "note"
        way_out = "install ONNX Runtime again" if name == CPU else "the next provider is used"
        return Finding(name, verdict, answer.failed, f"{way_out}; or mend it: {runtime_command()}")
    if answer.ran != (name,):
        text = f"two nodes ran on {', '.join(answer.ran) or 'nothing'} instead"
        return Finding(name, "note", text, f"look at the driver; {runtime_command()}")
    told = f" ({conditions})" if conditions else ""
    return Finding(name, "ok", f"ran two nodes in {answer.milliseconds:.2f} ms{told}")


def runtime_command() -> str:
    """Return the command that installs the ONNX Runtime which suits this device.

    On a Jetson the release of Jetson Linux decides: NVIDIA's own wheel fills the same folder as
    that of an extra.
    """
    jetson = read_jetson()
    if jetson is not None:
        return advise(jetson).runtime
    if not has_gpu():
        return pip_install("cpu")
    replace = "pip uninstall -y onnxruntime; " if find_spec("onnxruntime") else ""
    return f"{replace}{pip_install('gpu')}"


def has_gpu() -> bool:
    """Whether NVIDIA's driver is loaded."""
    return Path("/proc/driver/nvidia/version").exists()


def _method(status: Status | None) -> Iterator[Finding]:
    """Say for every phase of the fleet's method whether it can run here.

    Which method that is, the agent has heard; before, nothing is held against the device.
    """
    if status is None or not status.method:
        text = "not known before the agent has heard its coordinator"
        yield Finding("method", "ok", f"{text}; `fleetledger agent run`, then ask again")
        return
    if lacks := unable(status.method, status.requires, RESTART):
        yield Finding(f"method {status.method}", "missing", lacks, _installing(status))
        return
    features = frozenset(name for name in OPTIONAL_FEATURES if find_spec(name) is not None)
    for phase, needs in descriptor(status.method).needs.items():
        lacking = sorted(needs - features)
        about = f"{status.method}, phase {phase}"
        if lacking:
            way_out = "; ".join(_feature_command(name) for name in lacking)
            yield Finding(about, "missing", f"needs {', '.join(lacking)}", way_out)
        else:
            yield Finding(about, "ok", f"has {', '.join(sorted(needs))}")


def _installing(status: Status) -> str:
    """Return the commands that bring the distributions here that the fleet needs and are not."""
    needed = (each.install for each in status.requires if lacking((each,), RESTART))
    return "; ".join(dict.fromkeys(needed))


def _feature_command(feature: str) -> str:
    if feature == "onnxruntime":
        return runtime_command()
    if feature != _TORCH:
        return pip_install()
    jetson = read_jetson()
    if jetson is not None:
        return advise(jetson).torch
    return pip_install("train")


def _broker(home: AgentHome) -> Finding:
    """Connect under a name of its own, so that a running agent is not pushed out."""
    broker = home.settings.broker
    about = f"broker {broker.host}:{broker.port}"
    try:
        connection = mqtt_connect(home)("doctor", None)
        connection.start()
        try:
            connection.wait_connected(BROKER_SECONDS)
        finally:
            connection.stop()
    except (SettingsError, TransportError) as error:
        way_out = "start the broker, or mend [broker] in agent.toml; the operator has the password"
        return Finding(about, "missing", str(error), way_out)
    return Finding(about, "ok", f"lets {str(home.settings.device)!r} in")


def _certificates(home: AgentHome) -> Iterator[Finding]:
    """Tell of certificates that end within a month, or have ended."""
    for problem in ending(home.certificates(), time.time_ns()):
        yield Finding(problem.about, "missing" if problem.hinders else "note", problem.text)


def _candidate(home: AgentHome) -> Iterator[Finding]:
    """Say that a model is kept to be compared, where one is."""
    folder = home.state_folder / "slots"
    slots = ModelSlots(folder) if folder.is_dir() else None
    kept = slots.candidate() if slots is not None else None
    if slots is None or kept is None:
        return
    active = slots.active()
    beside = f"version {active.version}, which runs" if active is not None else "none that runs"
    yield Finding("candidate", "ok", f"version {kept.version} is kept beside {beside}")


def _folders(home: AgentHome) -> Iterator[Finding]:
    kind = home.settings.data.kind
    if kind is NOTHING:
        text = 'none: this device only runs models ([data] samples = "none")'
        yield Finding("data folder", "ok", text)
        if home.evaluation_folder is not None:
            yield _folder("evaluation folder", home.evaluation_folder, PICTURES)
        return
    yield _folder("data folder", home.data_folder, kind, home.settings.data.shape)
    if home.evaluation_folder is None:
        way_out = "set [data] evaluation_folder to have the model measured here"
        measured = "the models' masks are" if kind.masked else "accuracy is"
        yield Finding("evaluation folder", "note", f"none: {measured} not measured", way_out)
    else:
        yield _folder("evaluation folder", home.evaluation_folder, kind, home.settings.data.shape)


def _folder(about: str, folder: Path, kind: SampleKind, shape: Shape | None = None) -> Finding:
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        return Finding(about, "missing", f"{folder}: cannot be read", f"mkdir -p {folder}")
    if kind.masked:
        return _scenes(about, folder)
    classes = [item for item in folder.iterdir() if item.is_dir() and item.name[:1] != "."]
    files = [
        path for item in classes for path in item.rglob("*") if path.suffix.lower() in kind.suffixes
    ]
    number, unread = len(files), list[str]()
    if kind.many:
        number, unread = _in_arrays(files, shape)
    if unread:
        way_out = "mend the file, or `[data] shape` in agent.toml"
        return Finding(about, "note", f"{folder}: {unread[0]}", way_out)
    what = f"{kind.noun}s"
    text = f"{folder}: {count_of(number, kind.noun)} in {count_of(len(classes), 'class folder')}"
    if number:
        return Finding(about, "ok", text)
    return Finding(about, "note", text, f"put {what} into {folder}/CLASS/")


def _in_arrays(files: list[Path], shape: Shape | None) -> tuple[int, list[str]]:
    """Return how many samples files of arrays hold, and what is wrong with the others."""
    number, unread = 0, list[str]()
    for file in files:
        try:
            rows = rows_of(file, shape)
            number += 1 if rows is None else rows
        except (ArrayError, OSError) as error:
            unread.append(f"{file.name}: {error}")
    return number, unread


def _scenes(about: str, folder: Path) -> Finding:
    """Count pictures that have a mask; what the masks hold a running agent tells."""
    problems: list[Problem] = []
    try:
        names = load_mask_classes(folder / CLASSES).names
        pictures, masks = (named_files(folder, part, problems) for part in (IMAGES, MASKS))
    except SourceError as error:
        way_out = f"mkdir -p {folder / IMAGES} {folder / MASKS}; write {folder / CLASSES}"
        return Finding(about, "missing", str(error), way_out)
    number = len(pictures.keys() & masks.keys())
    alone = len(pictures.keys() ^ masks.keys())
    classes = count_of(len(names), "named class", "named classes")
    text = f"{folder}: {count_of(number, 'scene')}, {classes}"
    if alone or problems:
        others = count_of(len(problems), "other problem")
        text += f"; {count_of(alone, 'picture or mask', 'pictures or masks')} alone, {others}"
        return Finding(about, "note", text, "`fleetledger agent status` names them, once it runs")
    if number:
        return Finding(about, "ok", text)
    way_out = f"put pictures into {folder / IMAGES} and their masks into {folder / MASKS}"
    return Finding(about, "note", text, way_out)


def _space(home: AgentHome) -> Finding:
    free = shutil.disk_usage(home.folder).free
    text = f"{free >> 20} MiB free in {home.folder}"
    if free < LITTLE_SPACE:
        return Finding("disk", "missing", text, f"free {LITTLE_SPACE >> 20} MiB")
    return Finding("disk", "ok", text)
