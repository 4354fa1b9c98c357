"""Have a fleet learn classes, wait for the model that comes of it, and say who runs it.

python lead_a_fleet.py COORDINATOR-HOME CLASS...
"""

import sys

import fleetledger as fl

home, *classes = sys.argv[1:]
fleet = fl.Coordinator(home, operator="lead-a-fleet")
before = fleet.status().models.newest or 0

opened = fleet.open_stage(*classes, sure=True).wait()
print(*opened.said, flush=True)
fleet.wait(lambda now: (now.models.newest or 0) > before, timeout=600)

newest = max(model.version for model in fleet.models().models)
running = fleet.wait(
    lambda now: all(one.active_version == newest for one in now.devices), timeout=600
)
print(f"model {newest} runs on {', '.join(one.name for one in running.devices)}", flush=True)
for need in running.needs:
    print(f"needs a person: {need.sentence}")
given = [entry for entry in fleet.ledger if entry.kind == "contribution.accepted"]
print(f"{len(given)} of {len(fleet.ledger)} entries of the ledger are contributions")
