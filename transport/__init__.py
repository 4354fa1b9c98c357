"""How messages cross: one small interface, MQTT and in memory, blocks that resume."""
