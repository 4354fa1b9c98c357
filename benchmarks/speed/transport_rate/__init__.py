"""How fast messages and blocks cross, as ratios to a bare paho client on the same broker."""
