"""Light agents: of a device only its data, its records and its memory, under the real coordinator.

Devices count by the agent's rules, and are trained by the method's device side; what they say goes
to the coordinator's core in groups. There are no programs and no network; docs/simulator.md says
what that leaves out.
"""
