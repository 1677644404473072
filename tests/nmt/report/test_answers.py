"""The eleven answers on runs whose truth is known."""

from __future__ import annotations

from typing import Any

import pytest

from nmt.errors import StoreError
from nmt.report.answers import Answer, answers
from nmt.report.facts import gather

PARAMETERS = 1_000_000  # of the synthetic model


def ask(run: Any) -> dict[int, Answer]:
    """The answers of a run, by number."""
    return {answer.number: answer for answer in answers(gather(run.experiment, run.manifests, run.folders))}


def test_all_eleven_are_answered_in_order(make_run: Any) -> None:
    found = ask(make_run())
    assert list(found) == list(range(1, 12))
    assert all(answer.answer and answer.short and answer.figures and answer.evidence for answer in found.values())


def test_training_time_counts_training_evaluation_and_stage(make_run: Any) -> None:
    answer = ask(make_run())[1]
    assert answer.figures["training_seconds"] == pytest.approx(511, abs=1)
    assert answer.figures["evaluation_seconds"] == 50
    assert answer.figures["stage_seconds"] == 700
    assert answer.figures["seconds_per_step"] == pytest.approx(0.511, abs=0.001)
    assert "1,000 steps took 8 min 31 s" in answer.answer and "2 ranks" in answer.answer


def test_a_resumed_training_is_not_said_to_be_the_stage(make_run: Any) -> None:
    run = make_run()
    short_stage = run.manifests["train"].model_copy(update={"seconds": 60.0})
    answer = ask(type(run)(run.experiment, {**run.manifests, "train": short_stage}, run.folders))[1]
    assert "last sitting took 1 min 00 s" in answer.answer


@pytest.mark.parametrize(
    ("bleu", "dev", "verdict", "says"),
    [
        ("rising", "falling", "rising", "No: dev BLEU was still rising"),
        ("flat", "falling", "flat", "Yes: dev BLEU and dev loss are flat"),
        ("flat", lambda done: 5 - 3 * done, "loss falling", "dev loss was still falling"),
    ],
)
def test_fully_trained_follows_the_curves(make_run: Any, bleu: Any, dev: Any, verdict: str, says: str) -> None:
    answer = ask(make_run(bleu=bleu, dev=dev))[2]
    assert answer.figures["verdict"] == verdict
    assert says in answer.answer and "rule:" in answer.answer
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0" in answer.evidence


def test_rising_bleu_is_measured(make_run: Any) -> None:
    figures = ask(make_run(bleu="rising"))[2].figures
    assert figures["evaluations"] == 10 and figures["last_evaluations"] == 3
    assert figures["bleu_gain"] == pytest.approx(40 - 28)
    assert (figures["best_dev_bleu"], figures["best_step"]) == (40, 1_000)


def test_few_evaluations_give_no_verdict(make_run: Any) -> None:
    answer = ask(make_run(eval_every=400))[2]
    assert answer.figures["verdict"] == "unknown" and "this run made 3" in answer.answer


def test_a_run_that_patience_ended_says_so(make_run: Any) -> None:
    answer = ask(make_run(settings={"steps": 5_000, "patience": 4}))[2].answer
    assert "stopped by itself at step 1,000 of 5,000: 4 evaluations in a row" in answer


def test_a_run_that_ends_in_warm_up_says_so(make_run: Any) -> None:
    found = ask(make_run(steps=200, eval_every=20))
    assert "within its warm-up" in found[2].answer and "stopped by itself" not in found[2].answer
    assert found[6].figures["peak_step"] == 200 and "only rises" in found[6].answer


def test_overfitting_is_named_with_its_turning_point(make_run: Any) -> None:
    answer = ask(make_run(dev="turning", train=lambda done: 3 - done))[3]
    assert answer.figures["verdict"] == "yes" and "overfitting" in answer.answer
    assert answer.figures["lowest_step"] == 500
    assert answer.figures["rise"] == pytest.approx(0.5)
    assert answer.figures["train_nll"] < answer.figures["dev_nll"]


def test_falling_dev_loss_is_not_overfitting(make_run: Any) -> None:
    answer = ask(make_run())[3]
    assert answer.figures["verdict"] == "no" and answer.short == "no"


def test_both_losses_rising_is_instability(make_run: Any) -> None:
    answer = ask(make_run(dev="turning", train="turning"))[3]
    assert answer.figures["verdict"] == "unstable" and "instability" in answer.answer


@pytest.mark.parametrize("monitor", [None, []])
def test_without_a_monitor_nothing_is_guessed(make_run: Any, monitor: Any) -> None:
    found = ask(make_run(monitor=monitor))
    for number in (4, 5, 11):
        assert found[number].figures["verdict"] == "not measured"
        assert "no monitor data" in found[number].answer


def test_gpus_are_judged_one_by_one(make_run: Any, monitored: Any) -> None:
    slack = ask(make_run(monitor=monitored(100, 1_000, gpus=[97.0, 60.0])))[4]
    assert (
        slack.figures["verdict"] == "no" and "2 of 4 GPUs" in slack.answer and "alpha GPU 1 (V100) 60 %" in slack.answer
    )
    assert slack.figures["gpu_percent"]["beta GPU 0"] == 97


def test_busy_gpus_are_fully_utilised(make_run: Any, monitored: Any) -> None:
    busy = ask(make_run(monitor=monitored(100, 1_000, gpus=[97.0])))[4]
    assert busy.figures["verdict"] == "yes"


def test_cpu_utilisation_stands_in_where_there_is_no_gpu(make_run: Any, monitored: Any) -> None:
    answer = ask(make_run(monitor=monitored(100, 1_000)))[4]
    assert answer.figures["verdict"] == "no GPU" and "no GPU" in answer.answer
    assert answer.figures["cpu_percent"]["alpha"] == pytest.approx(82, abs=3)


def test_a_full_link_is_the_bottleneck(make_run: Any, monitored: Any) -> None:
    answer = ask(make_run(monitor=monitored(95, 100)))[5]
    assert answer.figures["verdict"] == "bottleneck"
    assert "alpha eth0" in answer.answer and "of 100 Mbit/s" in answer.answer
    assert answer.figures["hosts"]["beta"]["load"] == pytest.approx(0.95)


def test_a_capped_port_is_found_behind_a_fast_interface(make_run: Any, monitored: Any) -> None:
    answer = ask(make_run(monitor=monitored(99, 10_000)))[5]
    assert answer.figures["verdict"] == "bottleneck"
    assert "looks like a 100 Mbit/s port (10,000 Mbit/s by its own account)" in answer.answer


def test_a_link_with_room_is_no_bottleneck(make_run: Any, monitored: Any) -> None:
    assert ask(make_run(monitor=monitored(300, 1_000)))[5].figures["verdict"] == "no bottleneck"


def test_an_unknown_link_is_no_proof(make_run: Any, monitored: Any) -> None:
    answer = ask(make_run(monitor=monitored(300, None)))[5]
    assert answer.figures["verdict"] == "unknown link speed" and "no sign" in answer.answer


def test_one_host_uses_its_loopback(make_run: Any, sample: Any) -> None:
    found = ask(make_run(monitor=[sample(second, "alpha", 8, 1_000) for second in range(0, 600, 5)]))
    assert found[5].figures["verdict"] == found[11].figures["verdict"] == "one host"
    assert "loopback" in found[5].answer


def test_the_learning_rate_is_explained_with_this_runs_numbers(make_run: Any) -> None:
    answer = ask(make_run())[6]
    assert answer.figures["peak"] == pytest.approx((128 * 300) ** -0.5)
    assert answer.figures["final"] == pytest.approx((128 * 1_000) ** -0.5)
    assert answer.figures["largest_deviation"] < 1e-9
    assert "1 · 128^-0.5 · min(n · 300^-1.5, n^-0.5)" in answer.answer


def test_a_rate_that_falls_in_a_straight_line_is_explained(make_run: Any) -> None:
    answer = ask(make_run(settings={"rate_ends": 1_299}))[6]
    assert answer.figures["final"] == pytest.approx((128 * 300) ** -0.5 * 0.3)
    assert "1 · 128^-0.5 · min(n · 300^-1.5, 300^-0.5 · (1,300 - n) / 1,000)" in answer.answer
    assert "straight line (train.rate_ends = 1,299) to" in answer.answer


def test_the_training_set_is_measured_raw_clean_and_encoded(make_run: Any) -> None:
    run = make_run()
    figures = ask(run)[7].figures
    assert figures["raw"]["train.en"] == {"bytes": (run.folders["download"] / "train.en").stat().st_size, "lines": 100}
    assert figures["clean"]["train.de"]["lines"] == 90
    assert (figures["encoded_bytes"], figures["encoded_pairs"]) == (3_000, 90)


def test_the_checkpoint_is_listed_and_its_size_explained(make_run: Any) -> None:
    found = ask(make_run())
    assert list(found[8].figures["files"]) == ["state.json", "weights.data-00000-of-00001", "weights.index"]
    assert found[9].figures == {
        "bytes": 12 * PARAMETERS + 102,
        "parameters": PARAMETERS,
        "expected_bytes": 12 * PARAMETERS,
        "difference": 102,
    }
    assert found[9].short == "12.0 MB"


def test_step_time_gives_mean_median_and_slowest(make_run: Any) -> None:
    figures = ask(make_run())[10].figures
    assert figures["median"] == pytest.approx(0.5, abs=1e-3)
    assert figures["slowest"] == pytest.approx(0.625) and figures["slowest_step"] == 500
    assert figures["mean"] == pytest.approx(0.511, abs=1e-3)


def test_traffic_that_makes_up_for_slow_steps_correlates(make_run: Any, sample: Any) -> None:
    # The same bytes in every update: where a step takes a quarter longer, half-way, the rate is lower by as much.
    run = make_run(monitor=[])
    facts = gather(run.experiment, run.manifests, run.folders)
    mbit = 4 * PARAMETERS * 8 / 1e6  # what two hosts send per update, in Mbit
    rows = [
        sample(row["time"] - 1 - 1_750_000_000.0, host, mbit / row["step_seconds"], 1_000)
        for row in facts.trains
        for host in ("alpha", "beta")
    ]
    answer = {a.number: a for a in answers(type(facts)(**{**facts.__dict__, "monitor": rows}))}[11]
    assert answer.figures["correlation"] == pytest.approx(-1, abs=0.01)
    assert answer.figures["update_bytes"] == 4 * PARAMETERS
    assert answer.figures["measured_over_predicted"] == pytest.approx(1, abs=0.03)


def test_records_without_a_clock_cannot_be_correlated(make_run: Any, monitored: Any) -> None:
    answer = ask(make_run(monitor=monitored(60, 1_000), clock=False))[11]
    assert answer.figures["verdict"] == "unknown" and "no time of day" in answer.answer
    assert answer.figures["measured_update_bytes"] == pytest.approx(60e6 / 8 * 0.511, rel=0.01)


@pytest.mark.parametrize(
    ("ranks", "fp16", "expected"), [(1, False, 0), (2, False, 4e6), (4, False, 6e6), (4, True, 3e6)]
)
def test_a_ring_passes_on_two_shares_of_the_gradients(make_run: Any, ranks: int, fp16: bool, expected: float) -> None:
    run = make_run(ranks=ranks, settings={"fp16_compression": fp16})
    assert ask(run)[11].figures["update_bytes"] == expected


def test_metrics_without_records_are_refused(make_run: Any) -> None:
    run = make_run()
    (run.folders["train"] / "metrics.jsonl").write_text("")
    with pytest.raises(StoreError, match="found 0 and 0"):
        ask(run)
