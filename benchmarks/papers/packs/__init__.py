"""Data packs brought into the layout that the simulator reads."""
