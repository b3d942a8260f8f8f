"""What is declared: the catalog, the commands that change it, and what they carry."""
