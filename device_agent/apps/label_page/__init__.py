"""`agent label`: a page on which a device's owner says what doubted images are."""
