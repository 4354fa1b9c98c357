"""Where everything of a fleet of processes lies.

<root>/coordinator/              settings, ledger and blobs of the coordinator
<root>/proxy/                    settings and state of the proxy, where the method has one
<root>/agents/<device>/          settings and state of an agent
<root>/agents/<device>/data/     its private images, a folder per class
<root>/agents/<device>/test/     its share of the test images, where it is to be asked about them
<root>/broker/                   configuration, secrets and log of the broker
<root>/logs/                     what the programs said
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleetledger.schemas.values import DeviceId


@dataclass(frozen=True)
class FleetFolder:
    """Paths below one fleet's root."""

    root: Path

    def make(self) -> None:
        """Make the folders that are not there yet; the broker makes its own."""
        for path in (self.coordinator, self.agents, self.logs):
            path.mkdir(parents=True, exist_ok=True)

    @property
    def coordinator(self) -> Path:
        """Home of the coordinator."""
        return self.root / "coordinator"

    @property
    def proxy(self) -> Path:
        """Home of the proxy."""
        return self.root / "proxy"

    @property
    def agents(self) -> Path:
        """Folder with a home per agent."""
        return self.root / "agents"

    @property
    def broker(self) -> Path:
        """Folder of the broker."""
        return self.root / "broker"

    @property
    def logs(self) -> Path:
        """Folder with a log per program."""
        return self.root / "logs"

    def agent(self, device: DeviceId) -> Path:
        """Return the home of one agent."""
        return self.agents / device

    def private_images(self, device: DeviceId) -> Path:
        """Return the folder that the agent learns from."""
        return self.agent(device) / "data"

    def test_images(self, device: DeviceId) -> Path:
        """Return the folder that the agent measures its model on."""
        return self.agent(device) / "test"
