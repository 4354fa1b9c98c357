"""What is slow, measured against a floor or a peer in the same run."""

from pathlib import Path

RESULTS_FOLDER = Path(__file__).parent / "results"
"""Tables and pictures of what was measured, with the machine named in each."""
