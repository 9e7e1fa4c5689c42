"""The paper's tables, baselines and worlds; `rp.baselines` and `rp.datasets` hand out what users need of them."""
