"""The dashboard in Chromium, over a fleet of real programs."""
