"""Bundles: fleetledger with all that it needs, signed, for devices without a network."""
