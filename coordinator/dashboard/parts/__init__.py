"""Parts of pages: what devices have to say, the map, plots, filters, what is to be done."""
