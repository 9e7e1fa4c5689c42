"""joblib's back ends: restarts and searches on a real cluster of Dask workers give the numbers of one process."""

import joblib
import numpy as np
import pytest

import rpmodels as rp
from data import clusters

pytestmark = pytest.mark.soak  # workers take long to import things; joblib's own processes are met in many tests


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


def test_restarts_on_dask(cluster):
    estimator = rp.RPCategorical(3, max_iter=40, n_init=4, random_state=0)
    alone = estimator.fit(clusters(80)[0])
    tried, score = [attempt.free_energies[0] for attempt in alone.restarts_], float(alone.score_)
    with joblib.parallel_config(backend="dask"):
        spread = estimator.fit(clusters(80)[0])
    assert [attempt.free_energies[0] for attempt in spread.restarts_] == pytest.approx(tried)
    assert float(spread.score_) == pytest.approx(score)
    ran = cluster.run(lambda dask_worker: dask_worker.state.executed_count)
    assert all(ran.values()), ran  # both workers had something to do


def test_cross_validation_on_dask(cluster):
    estimator = rp.RPCategorical(3, max_iter=20, n_init=1, random_state=0)
    alone = rp.evaluation.cross_validate(estimator, clusters(80)[0], cv=2)
    with joblib.parallel_config(backend="dask"):
        spread = rp.evaluation.cross_validate(estimator, clusters(80)[0], cv=2)
    np.testing.assert_allclose(spread.held_out, alone.held_out)
