"""Worlds that are simulated for the paper's figures: numpy out. `rp.datasets` hands them out."""
