"""The calendar by which entries have their times."""
