"""What papers claim and what our rules are worth: accuracy, detection, verdicts."""
