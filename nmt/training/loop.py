"""The training loop: batches in, updates made, and from time to time a line, an evaluation, a checkpoint."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import tensorflow as tf

from nmt.corpus import encode
from nmt.errors import TrainingError
from nmt.model.schedule import learning_rate
from nmt.model.shape import POSITIONS
from nmt.training import checkpoints
from nmt.training.batches import Batches, Position, Update, ahead
from nmt.training.checkpoints import State
from nmt.training.evaluate import dev_score
from nmt.training.interval import Interval
from nmt.training.job import Job
from nmt.training.metrics import Metrics
from nmt.training.pulse import EVALUATING, READING, SAVING, UPDATING, Pulse
from nmt.training.ranks import Ranks
from nmt.training.records import duration
from nmt.training.step import Step

SHOWN = 5  # line numbers told of a bad update; the file has them all


class Trainer:
    """One rank of a training. Only the first rank writes and speaks."""

    def __init__(self, job: Job, ranks: Ranks, threads: int = 0, lanes: int = 1) -> None:
        self.job, self.ranks, self.settings, self.threads = job, ranks, job.train, threads
        self.data = encode.load(job.data, "train")
        self.batches = Batches(self.data, job.train, job.seed, ranks.rank, ranks.size)
        self.step = Step(job, ranks, lanes)
        self.saved = self.step.saved()
        self.state = State()
        self.pulse = Pulse(job.work / "pulse", ranks.rank)
        self.checkpointed = time.monotonic()
        self.eval_seconds = 0.0  # of the last evaluation

    def run(self) -> None:
        """Train up to the wanted step, from the newest checkpoint if there is one."""
        with ExitStack() as stack:
            self.resume()
            metrics = Metrics(self.job.work, self.state.step) if self.ranks.rank == 0 else None
            if metrics:
                stack.callback(metrics.close)
            self.say_beginning()
            stream = stack.enter_context(closing(ahead(self.batches(Position(self.state.epoch, self.state.group)))))
            self.train(stream, metrics)

    def train(self, stream: Iterator[Update], metrics: Metrics | None) -> None:
        """Make the updates that are left, one of `stream` each."""
        interval = Interval(self.state.opened)
        while not self.finished():
            self.pulse.at(self.state.step, READING)
            interval.begin()
            update = next(stream)
            rate = self.rate()
            self.pulse.at(self.state.step, UPDATING)
            interval.end(self.step(update, rate), update)
            done = self.state.step + 1
            self.state = self.state.model_copy(
                update={
                    "step": done,
                    "epoch": update.after.epoch,
                    "group": update.after.group,
                    "bleu": None,
                    "regular": done % self.settings.checkpoint_every == 0,
                }
            )
            evaluating = self.is_due(self.settings.eval_every)
            saving = self.is_due(self.settings.checkpoint_every) or evaluating or self.clock_is_due()
            if saving or self.is_due(self.settings.log_every):
                self.check(interval)  # no checkpoint may hold what a bad update has spoilt
            if self.is_due(self.settings.log_every) or evaluating:
                self.log(interval, rate, metrics)
                interval = Interval()
            if evaluating:
                self.evaluate(metrics)
            if saving:
                self.save(interval)

    def rate(self) -> float:
        """The learning rate of the next update."""
        s = self.settings
        return learning_rate(self.state.step, s.learning_rate, s.width, s.warmup, s.rate_ends)

    def finished(self) -> bool:
        """Whether all steps are made, or patience has run out."""
        out = 0 < self.settings.patience <= self.state.stale
        if out and self.ranks.rank == 0:
            say(
                f"stopping at step {self.state.step:,}: dev BLEU has not risen for {self.state.stale} evaluations; "
                f"the best was {self.state.best_bleu:.2f} at step {self.state.best_step:,}"
            )
        return out or self.state.step >= self.settings.steps

    def is_due(self, every: int) -> bool:
        """Whether something done every so many steps, and at the last, is due."""
        return self.state.step % every == 0 or self.state.step == self.settings.steps

    def clock_is_due(self) -> bool:
        """Whether the last checkpoint is too long ago; asked of the rank that writes them."""
        return self.ranks.rank == 0 and (time.monotonic() - self.checkpointed) / 60 >= self.settings.checkpoint_minutes

    def resume(self) -> None:
        """Take up the newest whole checkpoint; the first rank reads it, the others are told."""
        if self.ranks.rank == 0:
            found = checkpoints.newest(self.job.work / "checkpoints", say, at_most=self.settings.steps)
            if found:
                path, self.state = found
                self.saved.read(str(path / "weights")).assert_consumed()
                say(f"resuming from {path.name}")
        self.ranks.prepare([*self.job.shape.weights().values()])
        self.state = self.ranks.share(self.state)
        self.ranks.broadcast(self.step.variables())

    def log(self, interval: Interval, rate: float, metrics: Metrics | None) -> None:
        """Report the steps since the last report."""
        values = interval.summary()
        seconds = self.state.seconds + interval.seconds
        self.state = self.state.model_copy(update={"seconds": seconds})
        if metrics is None:
            return
        values |= {"learning_rate": rate, "seconds": round(seconds, 3), "epoch": self.state.epoch}
        norm = values["gradient_norm"]
        shown = "-" if norm is None else f"{norm:.3f}"
        metrics.add("train", self.state.step, values, {
            "train_loss": values["loss"],
            "learning_rate": rate,
            **({} if norm is None else {"global_gradient_norm": norm}),
            "tokens_per_second": values["tokens_per_second"],
            "step_seconds": values["step_seconds"],
            "steps_per_second": 1 / values["step_seconds"],
        })  # fmt: skip
        say(
            f"step {self.state.step:,}/{self.settings.steps:,}  loss {values['loss']:.4f}  "
            f"{values['tokens_per_second']:,.0f} tokens/s  rate {rate:.2e}  norm {shown}  "
            f"padding {values['padding']:.1%}  left {duration(self.seconds_left(values['step_seconds']))}"
            + (f"  {values['left_out']} left out (overflow)" if values["left_out"] else "")
        )

    def seconds_left(self, each: float) -> float:
        """How long the steps that are left will take at so many seconds each, with the evaluations among them."""
        steps, every = self.settings.steps, self.settings.eval_every
        evaluations = (
            math.ceil(steps / every) - (self.state.step - 1) // every
        )  # one at this very step is still to come
        return (steps - self.state.step) * each + evaluations * self.eval_seconds

    def evaluate(self, metrics: Metrics | None) -> None:
        """Dev loss and dev BLEU, each rank its share of the work."""
        began = time.monotonic()
        loss, nll, pieces = self.dev_loss()
        found = dev_score(
            self.job,
            self.step.model.numpy(),
            self.ranks,
            self.threads,
            lambda _: self.pulse.at(self.state.step, EVALUATING),
        )
        self.eval_seconds = round(time.monotonic() - began, 3)
        better = self.state.best_bleu is None or found.bleu > self.state.best_bleu
        self.state = self.state.model_copy(update={"bleu": found.bleu, "stale": 0 if better else self.state.stale + 1})
        if better:
            self.state = self.state.model_copy(update={"best_bleu": found.bleu, "best_step": self.state.step})
        if metrics is None:
            return
        values: dict[str, Any] = {
            "loss": loss / pieces,
            "nll": nll / pieces,
            "bleu": found.bleu,
            "signature": found.signature,
            "piece_bleu_not_sacrebleu": found.piece_bleu,
            "samples": [sample.model_dump() for sample in found.samples],
            "eval_seconds": self.eval_seconds,
        }
        metrics.add("eval", self.state.step, values, {
            "eval_loss": loss / pieces, "eval_BLEU": found.bleu, "eval_piece_BLEU_not_sacreBLEU": found.piece_bleu,
        })  # fmt: skip
        say(f"step {self.state.step:,}: dev loss {loss / pieces:.4f}, dev BLEU {found.bleu:.2f}")
        for sample in found.samples:
            say(f"  {sample.source}\n    = {sample.reference}\n    > {sample.output}")

    def dev_loss(self) -> tuple[float, float, float]:
        """Loss, negative log-likelihood and number of pieces, summed over the dev set."""
        every_pair = self.settings.model_copy(update={"max_length": POSITIONS - 1, "accumulate": 1})
        dev = Batches(encode.load(self.job.data, "dev"), every_pair, 0, self.ranks.rank, self.ranks.size)
        total = tf.zeros([3])
        for group in dev.plan(0):
            batch = dev.batch(group[self.ranks.rank :: self.ranks.size])
            total += self.step.measure(batch.source, batch.target)
            self.pulse.at(self.state.step, EVALUATING)
        _, (summed,) = self.ranks.sum([], [total])
        loss, nll, pieces = (float(value) for value in summed)
        return loss, nll, pieces

    def save(self, interval: Interval) -> None:
        """Write a checkpoint; the first rank does."""
        self.pulse.at(self.state.step, SAVING)
        if self.ranks.rank == 0:
            self.state = self.state.model_copy(update={"opened": interval.opened()})
            keep, best = self.settings.keep, self.settings.keep_best
            checkpoints.save(self.job.work / "checkpoints", self.state, self.saved.write, keep, best)
        self.checkpointed = time.monotonic()

    def check(self, interval: Interval) -> None:
        """Stop where a loss or gradient was not a number: say when, on which lines, and what is still good."""
        bad = interval.bad(may_overflow=self.step.scale.used)
        if bad is None:
            return
        step = self.state.step - len(interval.groups) + bad + 1
        lines = (self.data.order[interval.groups[bad]] + 1).tolist()
        record = self.job.work / "bad-update.json"
        if self.ranks.rank == 0:
            record.write_text(json.dumps({"step": step, "lines": lines}) + "\n", encoding="utf-8")
        saved = checkpoints.listed(self.job.work / "checkpoints")
        raise TrainingError(
            f"the loss or its gradient is not a finite number at step {step:,}, on {len(lines):,} pairs: lines "
            f"{', '.join(map(str, lines[:SHOWN]))}{' …' if len(lines) > SHOWN else ''} of the clean training text "
            f"(all in {record}). Lower train.learning_rate, raise train.warmup"
            + (", or send gradients whole: train.fp16_compression=false" if self.settings.fp16_compression else "")
            + "; each begins a training of its own, at step 0, and leaves this one as it is. "
            + (f"Its last good checkpoint is {saved[-1].name}." if saved else "No checkpoint was written yet.")
        )

    def say_beginning(self) -> None:
        """One line on what is about to happen."""
        if self.ranks.rank == 0:
            unit, size, parts = self.settings.batch_unit, self.settings.batch, self.settings.accumulate
            times = f" x {parts} accumulated" if parts > 1 else ""
            say(
                f"{self.job.shape.parameters:,} parameters, "
                f"checkpoints of {self.job.shape.checkpoint_bytes / 1e6:,.0f} MB, {len(self.batches.usable):,} pairs; "
                f"{size:,} {unit} x {self.ranks.size} ranks{times} = "
                f"{size * self.ranks.size * parts:,} {unit} per update, in {self.settings.precision}"
            )


def say(text: str) -> None:
    """One line to whoever watches; the parent process passes it on."""
    print(text, flush=True)
