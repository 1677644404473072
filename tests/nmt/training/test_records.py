"""What training recorded, read back: whatever text is in it, and however it was cut short."""

import json

from nmt.training.records import read, truncate

SAMPLE = "one\u2028two\x85three\u2029four \x1c five\r\n six"  # all of which end a line for str.splitlines


def test_samples_of_any_text_come_back_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": step, "kind": "eval", "samples": [SAMPLE]} for step in (10, 20)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    assert read(path) == rows
    truncate(path, 10)
    assert read(path) == rows[:1]


def test_a_line_cut_short_by_a_kill_is_passed_over(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st', encoding="utf-8")
    assert [row["step"] for row in read(path)] == [1, 2]
    truncate(path, 5)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
