"""Who may see the pages, and who may act."""
