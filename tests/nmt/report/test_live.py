"""A training under way as Markdown: from its first line on, and with text that is Markdown itself."""

import base64
import re
import xml.etree.ElementTree as ET

from nmt.config import Experiment
from nmt.report import live

TRAIN = {"kind": "train", "seconds": 65.0, "loss": 3.5, "tokens_per_second": 1000.0, "learning_rate": 1e-3}
SAMPLES = [{"source": "a *b* | c", "reference": "<i>", "output": ""}]
EVAL = {"kind": "eval", "loss": 3.0, "bleu": 12.5, "samples": SAMPLES}


def pictures(text):
    found = re.findall(r"!\[([^]]+)\]\(data:image/svg\+xml;base64,([^)]+)\)", text)
    return {name: ET.fromstring(base64.b64decode(data)) for name, data in found}


def test_before_the_first_line():
    assert live.training(Experiment(), []) == "The first steps are being made."
    assert live.dev_samples([]) == ""


def test_curves_grow_as_the_training_goes_on():
    rows = [{**TRAIN, "step": 100}]
    assert set(pictures(live.training(Experiment(), rows))) == {"Loss", "Speed"}
    rows += [{**EVAL, "step": 100}, {**TRAIN, "step": 200, "loss": 2.5}]
    text = live.training(Experiment(), rows)
    assert set(pictures(text)) == {"Loss", "Dev BLEU", "Speed"}
    assert "| step | 200 of 50,000 |" in text and "| training loss | 2.5000 |" in text
    assert "| dev BLEU | 12.50, best 12.50 at step 100 |" in text
    assert "var(--" not in base64.b64decode(re.search(r"base64,([^)]+)", text)[1]).decode()


def test_samples_are_shown_as_they_are():
    text = live.dev_samples([{**EVAL, "step": 100}])
    assert text.startswith("At step 100:")
    assert r"- **a \*b\* \| c**" in text and r"reference: \<i\>" in text and "output: (empty)" in text
