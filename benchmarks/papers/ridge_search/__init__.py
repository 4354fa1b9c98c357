"""Which ridge a search on held-out samples would take, beside the default."""
