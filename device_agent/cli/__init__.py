"""The verbs of `fleetledger agent`."""
