"""Several agents in one process, each as its program runs it: connections, threads, trials, disk.

Says on its standard output, a line of JSON each, when a device is welcomed (as version 0), and when
it runs a model of another version.

    python -m benchmarks.speed.time_to_model.hosting HOME...
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.memory import keep_loaded
from fleetledger.device_agent.program.assembly import AgentSurroundings, AssembledAgent, assemble
from fleetledger.device_agent.program.main import mqtt_connect

_LOOK_SECONDS = 0.02


def main() -> None:
    """Run the agents of the homes that are named until SIGTERM."""
    agents: dict[str, AssembledAgent] = {}
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    threads = [threading.Thread(target=run, args=(Path(folder), agents)) for folder in sys.argv[1:]]
    for thread in threads:
        thread.start()
    while len(agents) < len(threads):
        time.sleep(_LOOK_SECONDS)
    keep_loaded()
    tell_until(ending, agents)
    for made in list(agents.values()):
        made.agent.stop()
    for thread in threads:
        thread.join()


def run(folder: Path, agents: dict[str, AssembledAgent]) -> None:
    """Run the agent whose home is `folder`; what it opens belongs to this thread."""
    home = AgentHome.open(folder)
    made = assemble(home, AgentSurroundings(mqtt_connect(home)))
    agents[home.settings.device] = made
    made.agent.run()


def tell_until(ending: threading.Event, agents: dict[str, AssembledAgent]) -> None:
    """Say which device runs another version than before, until the end; 0 once it is welcomed."""
    known: dict[str, int] = {}
    while not ending.wait(_LOOK_SECONDS):
        for device, made in list(agents.items()):
            state = made.parts.state
            active = state.models.active
            version = active.version if active is not None else 0
            if state.presence.welcomed and version != known.get(device):
                known[device] = version
                said = {"device": device, "version": version, "at_ns": time.time_ns()}
                print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
