"""What the agent must not lose: a SQLite database, and a folder of content-addressed files."""
