"""Light agents: of a device only its data and its memory, under the real coordinator.

A round's cohort is trained by the method's device side, and the answers go to the coordinator's
core in groups. There are no agents, no messages and no network; docs/simulator.md says what that
leaves out.
"""
