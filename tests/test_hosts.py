"""Two hosts, namespaces with a cable between them: they train together, and one goes on when the other dies."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import rpmodels as rp

pytestmark = pytest.mark.soak
STEPS = 1500


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def hosts():
    """Names of two namespaces, 10.77.0.1 and 10.77.0.2."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need iproute2 and root")
    names = [f"rpm{os.getpid()}{end}" for end in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "rpm-a", "netns", names[0], "type", "veth", "peer", "name", "rpm-b", "netns", names[1])
        for name, end, address in zip(names, ("rpm-a", "rpm-b"), ("10.77.0.1", "10.77.0.2"), strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as failure:
        pytest.skip(f"no network namespaces here: {failure.stderr}")
    yield names
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=False)


def on_host(hosts, rank, command):
    """torchrun on one of two hosts."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": ("rpm-a", "rpm-b")[rank]}
    run = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={rank}"]
    where = ["--master-addr=10.77.0.1", "--master-port=29555", f"--local-addr=10.77.0.{rank + 1}"]
    return subprocess.Popen(
        ["ip", "netns", "exec", hosts[rank], sys.executable, *run, *where, "-m", "rpmodels", *command],
        env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def kill_host(name):
    """Everything on it at once: torchrun's workers are in sessions of their own."""
    pids = subprocess.run(["ip", "netns", "pids", name], check=True, capture_output=True, text=True).stdout.split()
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)


def test_two_hosts_train_together_and_one_goes_on_alone(hosts, tmp_path):
    random = np.random.default_rng(0)
    z = random.integers(3, size=600)
    data = tmp_path / "pairs.npz"
    np.savez(data, **{name: random.normal(size=(3, 4))[z] + 0.4 * random.normal(size=(600, 4)) for name in "ab"})

    def command(out):
        settings = {
            "max_iter": STEPS, "n_init": 1, "training.batch_size": 100, "recognition.dropout": 0,
            "recognition.input_dropout": 0, "engine.dtype": "float64", "engine.atoms": "own",
        }  # fmt: skip
        texts = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        return ["fit", str(data), "--model", "categorical", "--states", "3", *texts, "--out", str(tmp_path / out)]

    both = [on_host(hosts, rank, command("together")) for rank in (0, 1)]
    said = [each.communicate(timeout=400)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    kept = ["--checkpoint", str(tmp_path / "kept"), "--checkpoint-every", "1"]
    both = [on_host(hosts, rank, [*command("broken"), *kept]) for rank in (0, 1)]
    files = tmp_path / "kept"
    began = time.monotonic()
    while not any(files.glob("*.checkpoint")) and time.monotonic() - began < 200:
        time.sleep(0.1)
    kill_host(hosts[1])
    said = both[0].communicate(timeout=400)[0]
    both[1].communicate()
    assert both[0].returncode != 0
    assert "lost the others" in said, said
    assert not (tmp_path / "broken" / "model.rpm").exists()
    alone = subprocess.run(
        [sys.executable, "-m", "rpmodels", *command("alone"), *kept],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert alone.returncode == 0, alone.stderr
    ends = {name: rp.load(tmp_path / name / "model.rpm").history_["free_energy"] for name in ("together", "alone")}
    assert len(ends["alone"]) == STEPS
    np.testing.assert_allclose(ends["alone"], ends["together"], atol=1e-5)
