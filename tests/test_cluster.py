"""joblib's back ends: restarts and searches on real clusters of Dask and Ray give the numbers of one process."""

import os
import sys

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
    check_cross_validation("dask")


def check_cross_validation(backend):
    estimator = rp.RPCategorical(3, max_iter=20, n_init=1, random_state=0)
    alone = rp.evaluation.cross_validate(estimator, clusters(80)[0], cv=2)
    with joblib.parallel_config(backend=backend):
        spread = rp.evaluation.cross_validate(estimator, clusters(80)[0], cv=2)
    np.testing.assert_allclose(spread.held_out, alone.held_out)


@pytest.fixture(scope="module")
def ray_cluster():
    ray = pytest.importorskip("ray")
    register = pytest.importorskip("ray.util.joblib").register_ray
    # Workers find the library where this process did.
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": paths})
    register()
    yield ray
    ray.shutdown()


def test_restarts_and_searches_on_ray(ray_cluster):
    estimator = rp.RPCategorical(3, max_iter=40, n_init=4, random_state=0)
    alone = estimator.fit(clusters(80)[0])
    tried, score = [attempt.free_energies[0] for attempt in alone.restarts_], float(alone.score_)
    with joblib.parallel_config(backend="ray"):
        spread = estimator.fit(clusters(80)[0])
    assert [attempt.free_energies[0] for attempt in spread.restarts_] == pytest.approx(tried)
    assert float(spread.score_) == pytest.approx(score)
    check_cross_validation("ray")
    # The work was done by others than this process.
    workers = set(joblib.Parallel(n_jobs=2, backend="ray")(joblib.delayed(os.getpid)() for _ in range(4)))
    assert os.getpid() not in workers
