"""The eleven questions every run of this experiment is asked, answered from what the run recorded.

Each answer is a word or two, a sentence or two, the figures behind them, and where those come from. What
was not measured is said to be so; nothing is guessed. A rule that turns a curve into a verdict is a constant
beside the question it serves, and is stated in the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nmt.report.facts import Facts
from nmt.report.files import checkpoint_files, checkpoint_size, training_set
from nmt.report.learning import fully_trained, overfitting, rate_explained, step_time, training_time
from nmt.report.machine import gpu_use, network_correlation, network_use

QUESTIONS = (
    "How long did the training run take?",
    "Is the model fully trained? How can you tell?",
    "Was it overfitting?",
    "Were the GPUs fully utilised?",
    "Was network traffic monitored? Was the network the bottleneck?",
    "What does the learning-rate plot show, and which settings explain it?",
    "How big was the training set, and how many lines?",
    "Which files make up a checkpoint?",
    "How big is the checkpoint?",
    "How long did an average step take?",
    "How does the step time correlate with the network traffic between the hosts?",
)


@dataclass(frozen=True)
class Answer:
    """One question answered: in a word or two, in a sentence or two, in figures, and by what evidence."""

    number: int
    question: str
    short: str
    answer: str
    figures: dict[str, Any]
    evidence: str


def answers(facts: Facts) -> list[Answer]:
    """All eleven, in order."""
    found = (
        training_time(facts),
        fully_trained(facts),
        overfitting(facts),
        gpu_use(facts),
        network_use(facts),
        rate_explained(facts),
        training_set(facts),
        checkpoint_files(facts),
        checkpoint_size(facts),
        step_time(facts),
        network_correlation(facts),
    )
    return [
        Answer(number, question, *parts)
        for number, (question, parts) in enumerate(zip(QUESTIONS, found, strict=True), 1)
    ]
