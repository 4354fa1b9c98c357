"""Where images come from: a folder of class-named folders."""
