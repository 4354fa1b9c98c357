"""`status.json`: what a running agent says of itself, for `agent status` and for other programs.

`agent status` imports this module and nothing of the agent's rules, so that it answers at once.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, ValidationError

from fleetledger.device_agent.kinds import Exemplars, Samples
from fleetledger.runtime.problems import DatedProblem
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.requirements import Requirement
from fleetledger.schemas.values import ClassName, DeviceId, Digest, FleetId
from fleetledger.schemas.variants import VariantName

STATUS_FILE, STATE_FOLDER = "status.json", "state"
"""Names in the agent's folder."""
REMEMBERED = 10
"""Problems and refusals shown."""
MIB = 1 << 20


class RoundBytes(Strict):
    """Payload bytes that crossed in a round, by the transport's meter."""

    number: int
    bytes_up: int
    bytes_down: int


class Status(Strict):
    """What runs, what waits, what is wrong."""

    device: DeviceId
    fleet: FleetId
    process: int
    written_ns: int
    """Nanoseconds since 1970, when this was written."""
    connected: bool
    coordinator: bool
    """Whether the coordinator is there and has said what it holds."""
    wire: str
    """Version of the wire that is spoken with the coordinator, of those that both know."""
    stage: int | None
    method: str = ""
    """What the fleet learns with; empty before the coordinator was heard."""
    requires: tuple[Requirement, ...] = ()
    """What of it is not fleetledger's own: method and network, and the distributions that have
    them."""
    provider: str | None
    left_providers: tuple[str, ...] = ()
    """Execution providers that were left for the next one, each with the reason."""
    building: str = ""
    """What is built of a model before it is tried; empty where nothing is."""
    inference_p95_seconds: float | None = None
    """Of the newest hundreds of samples that the active model was asked about; None where there
    was none."""
    conditions: str = ""
    """Power mode, heat and throttling of the machine now; empty where nothing is known."""
    active_version: int | None
    active_manifest: Digest | None
    variant: VariantName | None = None
    """The variant of the frozen part that it runs on; None for the reference."""
    model_state: str
    """State and reason of the last desired model."""
    candidate: str = ""
    """The model that is kept beside the one that runs, and what is being compared; empty where
    neither is so."""
    parts: dict[str, int]
    """Number of parts by state."""
    counted_images: int
    images_on_disk: int
    samples: Samples = "pictures"
    """What lies there, as `[data] samples` has it."""
    settled: bool = False
    """Whether nothing is left to count, to measure or to send for the stage."""
    outbox: int
    dead_letters: int
    trust: str = ""
    """By which root models are installed, and which release runs; empty without a root."""
    silence: str = ""
    """That nothing new which the coordinator has signed came for long; empty while it is heard."""
    ledger_seen: int | None = None
    """Entries up to which the ledger's history was proven to this device."""
    key: str = ""
    """Hash of this device's key, and of one that waits for the coordinator; empty without any."""
    refusals: tuple[str, ...] = Field(max_length=REMEMBERED)
    waiting_classes: dict[ClassName, int]
    training: str = ""
    """What is trained, what was answered last, or what keeps this device from it; empty in a fleet
    that trains no network."""
    exemplars: int = 0
    """Samples of older classes that the method remembers here."""
    exemplars_as: Exemplars = "images"
    """As digests of images in the folder, or as features that stay when the image is gone."""
    feature_cache_bytes: int = 0
    """Size of the cache of features on the disk."""
    novelty_check: str = ""
    """What the fleet's model made of this device's images when it last looked; empty where it never
    did."""
    rounds: tuple[RoundBytes, ...] = ()
    """The newest rounds since the start, oldest first."""
    gradients: int = 0
    """Sets of gradients without the proxy's receipt."""
    masks: str = ""
    """What is given behind masks, and to how many; empty where nothing is."""
    policy: str = ""
    """Why this device gives nothing, no gradients or no images for what the fleet asks, or that its
    images leave it; empty where none of this is so."""
    detection: str = "off"
    """The last batch of new images that was measured, and what it was compared with."""
    left_out: int = 0
    """Samples on the disk that are left out: unreadable, or without finite numbers of the model."""
    doing: str = ""
    """Work that has taken more than a minute, and what it is at; empty where there is none."""
    problems: tuple[DatedProblem, ...] = ()
    """What is wrong now; first what keeps the agent from giving or getting, then the newest."""
    past: tuple[DatedProblem, ...] = ()
    """What was wrong or went wrong within a day, the last to end first."""
    ended: str = ""
    """Why the agent has ended; empty while it runs."""
    resident_mib: float
    bytes_up: int
    bytes_down: int


def read_status(path: Path) -> Status | None:
    """Return the last status; None where there is none that can be read."""
    try:
        return Status.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def write_status(path: Path, status: Status) -> None:
    """Replace the file in one step, so that nobody reads half of it."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(status.model_dump_json(indent=1), encoding="utf-8")
    temporary.replace(path)


def is_running(status: Status) -> bool:
    """Whether the process that wrote the status is still there."""
    try:
        os.kill(status.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
