"""How many contributions a coordinator takes in per second, as a ratio to a bare paho client."""
