"""Numba against a C compiler, on one loop: log Σ_m exp(Φ(a + g_m) + w_m) of one normal latent, one thread.

    python benchmarks/compilers.py

512 sites × 1000 atoms in float32, by the arithmetic of rpmodels.kernels in all three: what torch takes, what Numba
takes (and what it takes to be there), and C for this processor and for any (as a wheel is built). Needs a C compiler.
Writes docs/results/bench-compilers.json.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rpmodels import kernels
from rpmodels.families import DiagonalGaussian
from rpmodels.mixtures.fused import log_sum_normalisers
from rpmodels.persistence import write_json
from rpmodels.versions import versions

OUT = Path(__file__).parent.parent / "docs" / "results" / "bench-compilers.json"
SOURCE = r"""
#include <math.h>
#include <string.h>
static inline float number(int i) { float f; memcpy(&f, &i, 4); return f; }
static inline int bits(float f) { int i; memcpy(&i, &f, 4); return i; }
static inline float exp_(float x) {
    float s = x * 1.44269504f + 12582912.0f, n = s - 12582912.0f;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f, e = 1.0f / 5040;
    e = e * r + 1.0f / 720; e = e * r + 1.0f / 120; e = e * r + 1.0f / 24; e = e * r + 1.0f / 6;
    e = e * r + 0.5f; e = e * r + 1.0f; e = e * r + 1.0f;
    float value = e * number((bits(s) - (0x4B400000 - 127)) << 23);
    return x < -87.0f ? 0.0f : value;
}
static inline float log_(float x) {
    int offset = bits(x) - 0x3F3504F3;
    float n = (float)(offset >> 23), m = number((offset & 0x7FFFFF) + 0x3F3504F3), s = (m - 1) / (m + 1), q = s * s;
    float p = 2.0f / 11; p = p * q + 2.0f / 9; p = p * q + 2.0f / 7; p = p * q + 2.0f / 5; p = p * q + 2.0f / 3;
    return n * 0.693359375f + ((s * q * p - n * 2.12194440e-4f) + 2.0f * s);
}
void log_sums(const float *restrict a, const float *restrict g, const float *restrict w, int R, int A,
              float *restrict terms, float *restrict top, float *restrict total) {
    for (int r = 0; r < R; r++) { top[r] = -3e38f; total[r] = 0; }
    for (int m = 0; m < A; m++)
        for (int r = 0; r < R; r++) {
            float i = 1.0f / (a[R + r] + g[2 * m + 1]), h = a[r] + g[2 * m];
            float t = w[m] + 0.91893853f + 0.5f * h * h * i + 0.5f * log_(i);
            terms[m * R + r] = t; top[r] = t > top[r] ? t : top[r];
        }
    for (int m = 0; m < A; m++)
        for (int r = 0; r < R; r++) total[r] += exp_(terms[m * R + r] - top[r]);
    for (int r = 0; r < R; r++) total[r] = log_(total[r]) + top[r];
}
"""


def milliseconds(action: Callable[[], Any]) -> float:
    """Least of twenty, of the processor."""
    times = []
    for _ in range(20):
        begun = time.process_time()
        action()
        times.append(time.process_time() - begun)
    return min(times) * 1e3


def in_c(flags: list[str], given: list[Any], expected: Any) -> dict[str, float]:
    """By gcc with these flags."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "pairs.c", Path(folder) / "pairs.so"
        source.write_text(SOURCE)
        begun = time.perf_counter()
        subprocess.run(["cc", "-O3", "-shared", "-fPIC", *flags, str(source), "-o", str(library), "-lm"], check=True)
        compiling = time.perf_counter() - begun
        function = ctypes.CDLL(str(library)).log_sums
        kind, rows, atoms = given[0].dtype, given[0].shape[1], len(given[1])
        terms, top, total = np.empty((atoms, rows), kind), np.empty(rows, kind), np.empty(rows, kind)
        places = [each.ctypes.data_as(ctypes.c_void_p) for each in given]
        more = [each.ctypes.data_as(ctypes.c_void_p) for each in (terms, top, total)]
        took = milliseconds(lambda: function(*places, rows, atoms, *more))
        np.testing.assert_allclose(total, expected, rtol=1e-5)
    return {"ms": took, "seconds_compiling": compiling}


def numba_seconds(folder: str, code: str) -> float:
    """Of the processor, in a process of its own, with this folder for what is compiled."""
    timed = "import time, torch, numpy; begun = time.process_time()\n" + code + "\nprint(time.process_time() - begun)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    answer = subprocess.run([sys.executable, "-c", timed], env=environment, capture_output=True, text=True, check=True)
    return float(answer.stdout.strip().splitlines()[-1])


def main() -> None:
    torch.set_num_threads(1)
    family, random = DiagonalGaussian(1), torch.Generator().manual_seed(0)
    a, g = (family.to_valid(torch.randn(*shape, 2, generator=random)) for shape in ((512, 1), (1, 1000)))
    weight = torch.randn(1, 1000, generator=random)
    found: dict[str, Any] = {}
    for name, on in (("torch", False), ("numba", True)):
        with kernels.switched(on):
            expected = log_sum_normalisers(family, a, g, weight).flatten().numpy()
            found[name] = {"ms": milliseconds(lambda: log_sum_normalisers(family, a, g, weight))}
    form = torch.tensor([1.0, -2.0])
    given = [kernels.array(each) for each in ((a[:, 0] * form).T, g[0] * form, weight)]
    found["c for this processor"] = in_c(["-march=native"], given, expected)
    found["c for any"] = in_c([], given, expected)
    call = "import rpmodels; from rpmodels import kernels; import numpy as n\n"
    call += "a = n.ones((1, 2, 64), 'f'); k = kernels.loops('diagonal_pairs')\n"
    call += "k.log_sums(a, n.ones((1, 9, 2), 'f'), n.ones((1, 9), 'f'), n.ones((1, 64), 'f'))"
    with tempfile.TemporaryDirectory() as folder:
        found["numba"]["seconds_importing"] = numba_seconds(folder, "import numba")
        found["numba"]["seconds_first_call"] = numba_seconds(folder, call)
        found["numba"]["seconds_first_call_cached"] = numba_seconds(folder, call)
    for name, each in found.items():
        print(name, {key: round(value, 2) for key, value in each.items()})
    write_json(OUT, {**found, "versions": versions()})


if __name__ == "__main__":
    main()
