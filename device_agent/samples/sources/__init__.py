"""Where images come from: a folder of class-named folders, or pictures with masks."""
