"""The commands, the runner, the page, and what they write."""

import html.parser
import json
import os
import stat
from typing import ClassVar

import numpy as np
import pytest

import rpmodels as rp
from command_line import command
from rpmodels import cli, persistence, plots
from rpmodels.errors import RunError
from rpmodels.paper.experiments import experiment, runner
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.peer_baselines import Budget
from rpmodels.paper.experiments.peer_supervision import Settings


class Toy(Experiment):
    """Counts how often it runs; one row fails on demand."""

    name = "toy"
    summary = "a toy"
    presets: ClassVar = {"quick": Settings("digits"), "paper": Settings("mnist")}
    default_seeds: ClassVar = {"quick": 2, "paper": 3}
    fail_at: tuple[str, int] | None = None

    def __init__(self, folder):
        self.folder = folder

    def rows(self, settings):
        return [Row("A", "fast"), Row("B", condition="noise=0.1")]

    def paper(self, settings):
        return {("A-fast", "score"): "1"}

    def run(self, row, settings, seed):
        if (row.model, seed) == self.fail_at:
            raise KeyboardInterrupt
        with (self.folder / "calls").open("a") as calls:
            calls.write(f"{row.slug}-{seed}\n")
        return Outcome({"score": float(seed)}, {"extra": [1, 2]})

    def figures(self, outcomes, settings, folder):
        for row, each in outcomes.items():
            assert all(outcome.extras["extra"] == [1, 2] for outcome in each), row


def calls(tmp_path):
    return (tmp_path / "calls").read_text().split()


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_row_and_seed_is_run_once_and_summarised(tmp_path, jobs):
    folder = runner.run_experiment(Toy(tmp_path), "quick", out=tmp_path / "out", jobs=jobs)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert sorted(calls(tmp_path)) == ["A-fast-0", "A-fast-1", "B-noise=0.1-0", "B-noise=0.1-1"]
    first = next(row for row in metrics["rows"] if row["model"] == "A" and row["metric"] == "score")
    assert first["values"] == [0.0, 1.0]
    assert (first["median"], first["mean"], first["sd"], first["paper"]) == (0.5, 0.5, 0.5, "1")
    assert (first["method"], first["condition"]) == ("fast", "")
    assert set(metrics) == {"experiment", "preset", "settings", "rows", "seconds", "versions"}
    assert "| A | fast |  | score | 0.5 [0.25 – 0.75] | 0.5 ± 0.5 | 0 – 1 | 1 |" in (folder / "table.md").read_text()


def test_a_run_goes_on_where_it_stopped(tmp_path):
    toy = Toy(tmp_path)
    toy.fail_at = ("A", 1)
    with pytest.raises(KeyboardInterrupt):
        runner.run_experiment(toy, "quick", out=tmp_path / "out")
    assert calls(tmp_path) == ["A-fast-0", "B-noise=0.1-0"]
    assert not (tmp_path / "out" / "metrics.json").exists()
    toy.fail_at = None
    runner.run_experiment(toy, "quick", out=tmp_path / "out", seeds=3)
    assert len(calls(tmp_path)) == len(set(calls(tmp_path))) == 6


def test_other_settings_need_force_and_methods_choose_rows(tmp_path):
    toy = Toy(tmp_path)
    out = tmp_path / "out"
    runner.run_experiment(toy, "quick", out=out, seeds=1, methods=["FAST"])
    assert calls(tmp_path) == ["A-fast-0"]
    with pytest.raises(RunError, match="preset, settings differ"):
        runner.run_experiment(toy, "paper", out=out)
    runner.run_experiment(toy, "paper", out=out, seeds=1, force=True)
    assert len(calls(tmp_path)) == 3
    with pytest.raises(RunError, match="expected some of A, B, fast"):
        runner.run_experiment(toy, "quick", out=tmp_path / "other", methods=["C"])
    for bad in ({"preset": "huge"}, {"preset": "quick", "seeds": 0}, {"preset": "quick", "jobs": 0}):
        with pytest.raises(rp.RPModelsError):
            runner.run_experiment(toy, **bad, out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["experiments"], ["versions"]])
def test_help_and_lists(words):
    result = command(*words)
    assert result.exit_code == 0
    if words == ["experiments"]:
        assert "peer-supervision" in result.output


def test_our_errors_are_one_sentence_and_exit_code_2(capsys, monkeypatch, tmp_path):
    for words in (["run", "nonsense"], ["report", str(tmp_path)]):
        monkeypatch.setattr("sys.argv", ["rpmodels", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == 2
        assert capsys.readouterr().err.startswith("rpmodels: ")


class _Parser(html.parser.HTMLParser):
    """Collects what the page refers to."""

    def __init__(self):
        super().__init__()
        self.sources, self.missing_alt, self.tags = [], 0, []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.sources += [found[key] for key in ("src", "href") if key in found]
        self.missing_alt += tag == "img" and not found.get("alt")


def test_peer_supervision_from_its_command_line_and_its_page(tmp_path, monkeypatch):
    """Seconds long: the real experiment with few steps."""
    monkeypatch.setattr(
        "rpmodels.paper.experiments.peer_supervision.table_budget",
        lambda row, settings: Budget(settings.n_states, n_init=2, max_iter=20, learning_rate=3e-3),
    )
    out = tmp_path / "out"
    result = command("run", "peer-supervision", "--out", str(out), "--seeds", "1")
    assert result.exit_code == 0, result.output
    metrics = json.loads((out / "metrics.json").read_text())
    names = {(row["model"], row["metric"]) for row in metrics["rows"]}
    assert names >= {(m, "accuracy") for m in ("RPM", "supervised")} | {("RPM", "score_nats"), ("RPM", "ceiling_nats")}
    for stem in ("accuracy", "learning_curve"):
        assert (out / f"{stem}.png").stat().st_size > 5000
        assert (out / f"{stem}.pdf").stat().st_size > 5000
    assert command("report", str(out)).exit_code == 0
    page = (out / "report.html").read_text()
    parser = _Parser()
    parser.feed(page)
    assert parser.missing_alt == 0
    assert parser.tags.count("img") == 2
    assert all(source.startswith("data:") for source in parser.sources)  # self-contained
    assert "0.87 ± 0.09 (on MNIST)" in page
    refused = command("report", str(out)).exception
    assert isinstance(refused, RunError)
    assert "is there already" in str(refused)
    assert command("report", str(out), "--force").exit_code == 0


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.json"
    persistence.write_json(path, {"a": 1})
    for bad in ({"a": float("nan")}, {"a": object()}):
        with pytest.raises((ValueError, TypeError)):
            persistence.write_json(path, bad)
    assert json.loads(path.read_text()) == {"a": 1}

    def interrupted(temporary):
        temporary.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        persistence.write_atomically(path, interrupted)
    assert json.loads(path.read_text()) == {"a": 1}
    assert os.listdir(tmp_path) == ["file.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_experiments_are_found_by_their_file():
    assert "peer-supervision" in experiment.every_experiment()


def test_plots_return_axes_and_do_not_show():
    axes = plots.learning_curve({"step": np.arange(3), "free_energy": np.arange(3)}, ceiling=2.0)
    assert axes.get_xlabel() == "step"
    assert plots.confusion_matrix(np.eye(3)).images


def test_show_versions(capsys):
    rp.show_versions()
    assert "torch" in capsys.readouterr().out


def test_folders_that_are_not_ours_are_never_touched(tmp_path):
    toy = Toy(tmp_path)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "metrics.json").write_text("mine")
    for content in (None, "{}", "not json"):
        if content is not None:
            (foreign / "settings.json").write_text(content)
        for force in (False, True):
            with pytest.raises(RunError, match="was not made by"):
                runner.run_experiment(toy, "quick", out=foreign, force=force)
    assert (foreign / "metrics.json").read_text() == "mine"
    with pytest.raises(RunError, match="is a file"):
        runner.run_experiment(toy, "quick", out=foreign / "metrics.json")


def test_force_replaces_only_results_of_other_settings(tmp_path):
    toy = Toy(tmp_path)
    out = tmp_path / "out"
    runner.run_experiment(toy, "quick", out=out)
    (out / "notes.txt").write_text("mine")
    runner.run_experiment(toy, "quick", out=out, force=True)  # the same settings: nothing to replace
    assert len(calls(tmp_path)) == 4
    toy.fail_at = ("A", 0)
    with pytest.raises(KeyboardInterrupt):
        runner.run_experiment(toy, "paper", out=out, force=True)
    assert not (out / "metrics.json").exists()  # of the old settings
    assert (out / "notes.txt").read_text() == "mine"


def test_a_seed_with_a_diverged_start_is_kept(tmp_path):
    class Diverging(Toy):
        def run(self, row, settings, seed):
            return Outcome({"score": 1.0}, {"extra": [1, 2], "restarts": [{"free_energies": [float("-inf"), 0.5]}]})

    folder = runner.run_experiment(Diverging(tmp_path), "quick", out=tmp_path / "out", seeds=1, methods=["A"])
    stored = json.loads((folder / "seeds" / "A-fast-0.json").read_text())
    assert stored["extras"]["restarts"][0]["free_energies"] == [None, 0.5]


def test_links_and_modes_survive_a_write(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    persistence.write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
