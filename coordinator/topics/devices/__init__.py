"""Devices of the fleet: admitted, born, silent, and two installations under one name."""
