"""What a running agent is put together from; `assembly` does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from fleetledger.device_agent.core.state import AgentState
from fleetledger.device_agent.home.health.reader import HealthReader, TextfileWriter
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.program.device_jobs import DeviceJobs
from fleetledger.device_agent.program.mail import AgentMail
from fleetledger.device_agent.program.proxy_blocks import ProxyBlocks
from fleetledger.device_agent.program.worker import AgentWorker
from fleetledger.transport.clock import SYSTEM_CLOCK, Clock
from fleetledger.transport.interface import Connection
from fleetledger.transport.transfer import Exchange


def local_minute(time_ns: int) -> int:
    """Return the minute of the day by the machine's own time zone."""
    there = datetime.fromtimestamp(time_ns / 1e9, tz=timezone.utc).astimezone()
    return there.hour * 60 + there.minute


@dataclass(frozen=True)
class AgentParts:
    """What the shell is put together from."""

    home: AgentHome
    state: AgentState
    store: AgentStore
    blobs: BlobFolder
    slots: ModelSlots
    control: Connection
    exchange: Exchange
    mail: AgentMail
    jobs: DeviceJobs
    worker: AgentWorker
    status_file: Path | None
    """Where the agent says how it is; None where nobody looks."""
    clock: Clock = SYSTEM_CLOCK
    minute_of_day: Callable[[int], int] = local_minute
    """Returns the minute of the day where the device is, from nanoseconds since 1970."""
    proxy: ProxyBlocks | None = None
    """What the proxy fetches; None where there can be no proxy."""
    keys: KeyRing | None = None
    """The device's own; None where it can have none."""
    health: HealthReader | None = None
    """Reads how the machine is; None where there is none to be told of."""
    textfile: TextfileWriter | None = None
    """What node_exporter reads; None where it reads nothing."""
