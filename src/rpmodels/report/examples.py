"""The four examples of the demo page: each is the code that the page shows, and returns what the page looks at."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

import rpmodels as rp

TEXTURES = ("brick", "grass", "gravel")


def digits() -> tuple[Any, ...]:
    """Peer supervision."""
    images = rp.datasets.load_digit_images(random_state=0)
    pairs, _ = rp.datasets.make_pairs(images.train_images, images.train_labels, random_state=0)
    one_network = rp.Recognition(tied=True)  # for both images
    model = rp.RPCategorical(n_states=10, recognition=one_network, random_state=0).fit(pairs)
    states = model.predict({"x1": images.test_images})  # one image is enough for new data
    return images, pairs, model, states


def ball() -> tuple[Any, ...]:
    """RP-GPFA."""
    data = rp.datasets.textured_ball(n_trials=60, n_times=50, random_state=0)
    training, new = data.x[:40], data.x[40:]
    model = rp.RPGPFA(n_latents=1, random_state=0).fit(training)
    posterior = model.posterior(new)  # means, variances, joint draws
    return data, model, model.transform(training), posterior


def textures() -> tuple[Any, ...]:
    """RP-LDA."""
    mosaics = rp.datasets.texture_mosaics(random_state=0)  # 100 images of 10×10 patches
    model = rp.RPLDA(3, alpha=0.5, patch_size=28, max_iter=600, n_init=2, random_state=0).fit(mosaics.images)
    patches = model.predict_proba(mosaics.images)  # category of every patch
    mixtures = model.transform(mosaics.images)  # how much of each texture an image has
    return mosaics, patches, mixtures


def sensors() -> tuple[Any, ...]:
    """Two factors, one of them missing at times."""
    random = np.random.default_rng(0)
    time = np.arange(60)
    smooth = np.exp(-0.5 * ((time[:, None] - time) / 6.0) ** 2)
    z = random.multivariate_normal(np.zeros(60), smooth, 60, method="eigh")  # what both sensors follow
    noise = random.standard_normal
    camera = np.exp(-2.0 * (z[..., None] - np.linspace(-2.5, 2.5, 12)) ** 2) + 0.6 * noise((60, 60, 12))
    sound = np.tanh(z[..., None] * [1.0, -1.0, 0.5, 2.0]) + 0.6 * noise((60, 60, 4))
    sound[:20, 30:] = np.nan  # in the first trials the microphone fails half-way
    model = rp.RPGPFA(1, random_state=0).fit({"camera": camera, "sound": sound})
    return z, camera, sound, model


def source(example: Callable[[], Any]) -> str:
    """What the page shows: the function's body, as one would type it."""
    lines = inspect.getsource(example).splitlines()[2:]  # after the signature and the docstring
    body = textwrap.dedent("\n".join(line for line in lines if not line.strip().startswith("return ")))
    imports = ["import numpy as np"] if "np." in body else []
    return "\n".join([*imports, "import rpmodels as rp", "", body])
