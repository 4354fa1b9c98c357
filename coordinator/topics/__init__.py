"""The coordinator's topics: each folder has the entries, state, rules and views of one."""
