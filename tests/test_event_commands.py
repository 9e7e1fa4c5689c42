"""Tables of spikes on the command line: counted where that is asked for, and never fitted as numbers."""

import csv
import json

import numpy as np
import pytest

import events_data
import rpmodels as rp
from command_line import done, refused

pd = pytest.importorskip("pandas")

QUICK = (
    "--set", "max_iter=3", "--set", "n_init=1", "--set", "verbose=0", "--set", "search.retries=0", "--set",
    "training.finish=none",
)  # fmt: skip
GPFA = ("--model", "gpfa", "--latents", 1, *QUICK)
EVENTS = ("--events", "unit", "--time", "time", "--trial", "trial")
UNITS, EPOCHS, _, _ = events_data.session(n_trials=6)


@pytest.fixture(autouse=True)
def _pages_are_drawn_elsewhere(monkeypatch):
    monkeypatch.setattr("rpmodels.commands.fitting.model_page", lambda *_, **__: "<html></html>")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    table = pd.DataFrame(events_data.long_table(UNITS, EPOCHS))
    table.to_csv(folder / "spikes.csv", index=False)
    spread = EPOCHS - EPOCHS[:, :1]
    names = [f"trial{n:02d}" for n in range(len(EPOCHS))]
    pd.DataFrame({"trial": names, "start": spread[:, 0], "end": spread[:, 1]}).to_csv(
        folder / "epochs.csv", index=False
    )
    return folder


@pytest.fixture(scope="module")
def fitted(here):
    options = ("--epochs", here / "epochs.csv", "--bin", 0.05, "--out", here / "fit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rpmodels.commands.fitting.model_page", lambda *_, **__: "<html></html>")
        done("fit", here / "spikes.csv", *GPFA, *EVENTS, *options)
    return here / "fit"


def by_hand(width, trials=slice(None)):
    """Counts by numpy's histograms."""
    found = []
    for (start, end), trial in zip(EPOCHS, events_data.by_trial(UNITS, EPOCHS), strict=True):
        edges = width * np.arange(int(np.floor((end - start) / width + 1e-6)) + 1)
        found.append(np.stack([np.histogram(t[t < edges[-1]], edges)[0] for t in trial], 1))
    return found[trials]


def test_a_table_of_events_is_counted(fitted):
    counts = by_hand(0.05)
    times = [0.05 * (np.arange(len(each)) + 0.5) for each in counts]
    found = rp.load(fitted / "model.rpm").transform(counts, times=times)
    with np.load(fitted / "latents.npz") as latents:
        np.testing.assert_allclose(latents["mean"], np.concatenate(found), atol=1e-5)
        np.testing.assert_allclose(latents["times"], np.concatenate(times), atol=1e-9)
    with (fitted / "latents.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [rows[0]["trial"], rows[-1]["trial"]] == ["trial00", "trial05"]
    record = json.loads((fitted / "fit.json").read_text())
    assert record["units"] == {"x": [str(n) for n in range(12)]}
    assert record["command"]["bins"] == [0.05]


def test_new_events_are_read_as_those_of_the_fit(fitted, here, tmp_path):
    frame = pd.read_csv(here / "spikes.csv")
    new = frame[(frame["trial"] == "trial01") & (frame["unit"] != 3)]  # a unit is silent
    extra = pd.DataFrame({"trial": ["trial01"], "unit": [99], "time": [0.5]})
    pd.concat([new, extra]).to_csv(tmp_path / "new.csv", index=False)
    out = done("transform", fitted / "model.rpm", tmp_path / "new.csv", "--out", tmp_path / "new.npz")
    assert "1 unit(s) had no events in the data of the fit, and are left out: 99" in out
    last = new["time"].max()
    counts = by_hand(0.05)[1][: int(last / 0.05) + 1].copy()
    counts[:, 3] = 0
    times = 0.05 * (np.arange(len(counts)) + 0.5)
    with np.load(tmp_path / "new.npz") as latents:
        expected = rp.load(fitted / "model.rpm").transform([counts], times=[times])[0]
        np.testing.assert_allclose(latents["mean"], expected, atol=1e-5)


def test_units_are_shared_out_and_bins_are_chosen(here, tmp_path):
    factors = ("--factor", "left=0:5", "--factor", "right=6:10,11")
    out = tmp_path / "chosen"
    done(
        "fit",
        here / "spikes.csv",
        *GPFA,
        *EVENTS,
        *factors,
        "--bin",
        "0.05,0.1",
        "--epochs",
        here / "epochs.csv",
        "--out",
        out,
    )
    record = json.loads((out / "fit.json").read_text())
    assert record["units"] == {"left": list("012345"), "right": ["6", "7", "8", "9", "10", "11"]}
    assert set(record["widths"]) == {"0.05", "0.1"}
    (width,) = record["command"]["bins"]
    assert record["factors"]["left"] == {"shape": [6], "trials": 6, "rows": sum(map(len, by_hand(width)))}


NEVER = {
    "nothing said": (GPFA, r"--model gpfa --events unit --time time --trial trial --bin 0.02 --out"),
    "trial and time": ((*GPFA, "--trial", "trial", "--time", "time"), "names of units are no numbers to fit"),
    "as a factor": ((*GPFA, "--trial", "trial", "--factor", "x=unit"), "table of events"),
    "no time": (("--model", "fa", "--latents", 1, "--factor", "a=unit", "--factor", "b=time"), "--model gpfa --events"),
}


@pytest.mark.parametrize(("words", "said"), NEVER.values(), ids=NEVER.keys())
def test_events_are_never_fitted_as_numbers(here, tmp_path, words, said):
    assert said in refused("fit", here / "spikes.csv", *words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


BAD = [
    ((*EVENTS, "--bin", "wide"), "--bin: expected seconds"),
    ((*EVENTS, "--bin", "0.05,0.07"), "--bin: expected multiples of the narrowest bin, got 0.05, 0.07"),
    (("--trial", "trial", "--bin", "0.02"), "they are of events"),
    ((*EVENTS, "--time-unit", "hours"), "time_unit: expected s, ms"),
    ((*EVENTS, "--epochs", "nowhere.csv"), "nowhere.csv: no such file"),
    ((*EVENTS, "--factor", "x=0:40"), "got '12'"),
    (("--events", "cell", "--time", "time"), "expected the column that tells the unit"),
]


@pytest.mark.parametrize(("words", "said"), BAD)
def test_bad_options_of_events(here, tmp_path, words, said):
    assert said in refused("fit", here / "spikes.csv", *GPFA, *words, "--out", tmp_path / "out")


def test_events_need_a_model_over_time(here, tmp_path):
    words = ("--model", "categorical", "--states", 2, *EVENTS, "--out", tmp_path / "out")
    assert "--events is not for categorical: it knows no time" in refused("fit", here / "spikes.csv", *words)
    np.save(tmp_path / "x.npy", np.zeros((3, 4, 2)))
    assert "--events is not for arrays" in refused(
        "fit", tmp_path / "x.npy", *GPFA, *EVENTS[:2], "--out", tmp_path / "out"
    )


def test_ranges_of_columns(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"u{n}" for n in (0, 1, 10, 11, 2)]
    table = pd.DataFrame(rng.standard_normal((80, 5)), columns=names)
    table["y"], table["z"] = rng.standard_normal(80), rng.standard_normal(80)
    table.to_csv(tmp_path / "wide.csv", index=False)
    words = ("--model", "categorical", "--states", 2, *QUICK[:6], "--factor", "a=u0:u2", "--factor", "b=y:z,u10:u11")
    done("fit", tmp_path / "wide.csv", *words, "--out", tmp_path / "fit")
    model = rp.load(tmp_path / "fit" / "model.rpm")
    views = {"a": table[["u0", "u1", "u2"]].to_numpy(), "b": table[["y", "z", "u10", "u11"]].to_numpy()}
    with np.load(tmp_path / "fit" / "latents.npz") as latents:
        np.testing.assert_allclose(latents["probabilities"], model.predict_proba(views), atol=1e-6)
    again = done("transform", tmp_path / "fit" / "model.rpm", tmp_path / "wide.csv", "--out", tmp_path / "again.csv")
    assert "Written to" in again
    for bad, said in (("u0:u3", "'u3'"), ("z:y", "a range from the first column to the last"), ("q:z", "'q'")):
        other = ("--model", "categorical", "--states", 2, "--factor", f"a={bad}", "--factor", "b=y")
        assert said in refused("fit", tmp_path / "wide.csv", *other, "--out", tmp_path / "other")
