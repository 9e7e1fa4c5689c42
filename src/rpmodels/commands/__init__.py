"""What the commands do with people's own data: read it, fit it, transform it, tell what a file holds."""
