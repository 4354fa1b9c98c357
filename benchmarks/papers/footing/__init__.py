"""Parts of tables that have all methods on one footing: runs, rates, results and Markdown."""
