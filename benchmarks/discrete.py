"""Speed of the discrete RPM."""
