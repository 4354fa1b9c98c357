"""Who learns what and when: class order, stages, devices and their data, drawn from a seed.

`plan_maker.make_plan` puts it together: `order` and `stages` say which classes come when, `roster`
and `groups` which devices are there and get data, `partitions` how these are dealt, `presence` who
drops out or is late, `counts` what came of it.
"""

from fleetledger.simulator.plan.fleet_plan import DeviceStage, FleetPlan, StagePlan

__all__ = ["DeviceStage", "FleetPlan", "StagePlan"]
