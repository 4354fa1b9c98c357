"""How fast many devices connect, and how fast one model reaches many of them."""
