"""What every program stands on: errors, settings files, logs, output, systemd, files."""
