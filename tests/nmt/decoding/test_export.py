"""The exported model is the trained one: CTranslate2 gives every piece the probability TensorFlow gives it."""

import ctranslate2
import numpy as np
import pytest
import tensorflow as tf

from nmt.config import LearnBpeSettings, ScoreSettings, TokenizeSettings
from nmt.corpus.bpe import learn, read_vocabulary
from nmt.decoding.export import TextSettings, decoding_of, export, export_again, shape_of
from nmt.decoding.translate import Translator, batches
from nmt.errors import RequestError, RunError
from nmt.model.shape import ModelShape
from nmt.model.transformer import NO_DROPOUT, Transformer

TEXT = TextSettings(source="en", target="de", tokenize=TokenizeSettings())


@pytest.fixture(scope="module", params=[(1, 16, 2), (3, 32, 4)], ids=["1 layer", "3 layers"])
def exported(request, tmp_path_factory):
    """A model with random weights, far from their first values, and its folder."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "train.en").write_text("the old man sees a dog\nthe woman reads the book\n" * 3)
    learn([folder / "train.en"], folder, LearnBpeSettings(merges=20))
    pieces = read_vocabulary(folder / "vocabulary.tsv")
    layers, width, heads = request.param
    model = Transformer(ModelShape(len(pieces), layers, width, heads, 2 * width), seed=5)
    generator = np.random.default_rng(1)
    for weight in model.weights.values():
        weight.assign_add(generator.normal(0, 0.2, weight.shape).astype(np.float32))
    export(model.numpy(), model.shape, folder / "model", folder / "codes", folder / "vocabulary.tsv", TEXT)
    return model, pieces, folder / "model"


def test_every_piece_has_the_same_score(exported):
    model, pieces, folder = exported
    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    generator = np.random.default_rng(2)
    usable = [number for number, piece in enumerate(pieces) if not piece.startswith("<")]
    for length in (1, 5, 20):
        source, target = (generator.choice(usable, length).tolist() for _ in range(2))
        ours = model.log_probabilities(tf.constant([[*source, 3]]), tf.constant([[*target, 3]])).numpy()[0]
        words = [[pieces[number] for number in side] for side in (source, target)]
        theirs = translator.score_batch([words[0]], [words[1]])[0]
        np.testing.assert_allclose(theirs.log_probs, ours, atol=1e-3)


def test_greedy_decoding_takes_the_likeliest_pieces(exported):
    model, pieces, folder = exported
    translator = Translator(folder, ScoreSettings(beam=1, max_length=6))
    source = translator.segmenter.line("the old woman")
    output = translator.decode([source])[0].pieces
    ids = {piece: number for number, piece in enumerate(pieces)}
    taken: list[int] = []
    for _ in range(6):
        memory, bias = model.encode(tf.constant([[*(ids[piece] for piece in source), 3]]), NO_DROPOUT)
        states = model.decode(tf.constant([[2, *taken]]), memory, bias, NO_DROPOUT)
        best = int(np.argmax(tf.matmul(states[:, -1], model.weights["embedding"], transpose_b=True)))
        if best == 3:
            break
        taken.append(best)
    assert output == [pieces[number] for number in taken]


def test_lines_come_back_in_order_and_empty_lines_stay_empty(exported):
    *_, folder = exported
    translator = Translator(folder, ScoreSettings(beam=2, max_length=5, batch_tokens=4))
    lines = ["the dog", "", "a man reads", "   ", "the old book sees the woman"]
    together = [output.text for output in translator(lines)]
    assert together[1] == together[3] == ""
    assert together == [translator([line])[0].text for line in lines]


def test_batches_hold_each_sentence_once_and_no_more_than_they_may():
    sources = [["x"] * length for length in (3, 9, 1, 30, 3, 9, 2, 1)]
    found = list(batches(sources, 20))
    assert sorted(place for batch in found for place in batch) == list(range(8))
    assert found[0] == [3]  # longer than a batch may be: by itself
    assert all(len(batch) * max(len(sources[place]) for place in batch) <= 20 for batch in found[1:])
    assert list(batches([], 20)) == []


def test_an_interrupted_translation_leaves_little_to_wait_for(exported):
    *_, folder = exported
    translator = Translator(folder, ScoreSettings(beam=2, max_length=5, batch_tokens=4, threads=2))
    given = []

    class Counted:
        def __init__(self, model):
            self.model = model

        def translate_batch(self, sources, **how):
            given.extend(sources)
            return self.model.translate_batch(sources, **how)

    def interrupt(_):
        raise KeyboardInterrupt

    translator.model = Counted(translator.model)
    with pytest.raises(KeyboardInterrupt):
        translator(["the old book sees the woman"] * 50, interrupt)
    assert len(given) == 3  # one for each thread, and one for the first that is done


def test_the_folder_is_self_contained(exported, tmp_path):
    *_, folder = exported
    names = {path.name for path in folder.iterdir()}
    assert names == {"model.bin", "config.json", "shared_vocabulary.json", "codes", "vocabulary.tsv", "text.json"}
    with pytest.raises(RunError, match="holds no model"):
        Translator(tmp_path, ScoreSettings())


def test_exported_again_in_eight_bits_it_is_smaller_and_says_much_the_same(tmp_path):
    (tmp_path / "train.en").write_text("the old man sees a dog\nthe woman reads the book\n" * 3)
    learn([tmp_path / "train.en"], tmp_path, LearnBpeSettings(merges=20))
    pieces = read_vocabulary(tmp_path / "vocabulary.tsv")
    model = Transformer(ModelShape(len(pieces), 2, 128, 4, 512), seed=5)
    assert shape_of(model.numpy(), 4) == model.shape
    folder, out = tmp_path / "model", tmp_path / "small"
    export(model.numpy(), model.shape, folder, tmp_path / "codes", tmp_path / "vocabulary.tsv", TEXT)
    with pytest.raises(RunError, match=r"weights.npz is not there any more"):
        export_again(folder, out, 4, "int8", ScoreSettings())
    np.savez(tmp_path / "weights.npz", **model.numpy())
    chosen = ScoreSettings(beam=7, length_penalty=1.4)
    size = export_again(folder, out, 4, "int8", chosen.model_copy(update={"threads": 5}))
    assert decoding_of(out) == chosen and decoding_of(folder) == ScoreSettings()
    assert size < 0.4 * sum(path.stat().st_size for path in folder.iterdir())
    with pytest.raises(RequestError, match="exists already"):
        export_again(folder, out, 4, "int8", chosen)
    usable = [[piece] for piece in pieces if not piece.startswith("<")]
    plain, small = (
        [found.log_probs[0] for found in model.score_batch([["the"]] * len(usable), usable)]
        for model in (
            ctranslate2.Translator(str(folder), compute_type="float32"),
            ctranslate2.Translator(str(out), compute_type="int8"),
        )
    )
    assert np.corrcoef(plain, small)[0, 1] > 0.9  # what was likelier is likelier, piece by piece
    assert len(Translator(out, ScoreSettings())(["the old man", ""])) == 2
