"""The dashboard in a real browser: what point by point a person finds there. Pictures are kept in tests/output."""

import re
import shutil
from pathlib import Path

import pytest

OUTPUT = Path(__file__).resolve().parent.parent / "output"


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs a browser: apt-get install -y chromium")
    OUTPUT.mkdir(exist_ok=True)
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def run(ui):
    """A finished run of the demo's deployment on a small corpus, with spoilt pairs that are dropped."""
    overrides = ["download.dirt=0.1", "seed=41"]
    run = ui.deploy_run("experiment/demo", config=str(ui.config), name="shown", overrides=overrides)
    assert ui.ended(run) == "Completed", ui.logs(run)[-3000:]
    return run


def look(page, address, name, *texts):
    """Open a page, wait for each text to be seen, and keep a picture."""
    page.goto(address)
    try:
        for text in texts:
            page.get_by_text(text).first.wait_for(timeout=30_000)
    finally:
        page.screenshot(path=OUTPUT / f"{name}.png")


def test_dashboard_and_deployments(ui, page):
    look(page, f"{ui.url}/dashboard", "dashboard", "Flow Runs")
    look(page, f"{ui.url}/deployments", "deployments", "wmt16-base", "multi30k", "weekly")


def test_the_form_explains_itself(ui, page):
    deployment = ui.api("/deployments/name/experiment/demo")
    look(
        page,
        f"{ui.url}/deployments/deployment/{deployment['id']}/run",
        "form",
        "a name in config/, such as demo",
        "one of config/",
        "Training processes: one per GPU",
        "Begin at this stage",
        "Stop after this stage",
    )


def test_the_run_page_names_the_stages_and_shows_the_log(ui, page, run):
    look(page, f"{ui.url}/runs/flow-run/{run}", "run", "Completed", "Task Runs", "Artifacts")
    page.get_by_role("tab", name="Task Runs").or_(page.get_by_text("Task Runs", exact=True)).first.click()
    for stage in ("preflight", "download", "clean", "tokenize", "learn_bpe", "shuffle", "train", "score", "report"):
        page.get_by_text(stage, exact=True).first.wait_for(timeout=30_000)
    page.screenshot(path=OUTPUT / "run-tasks.png")


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("clean", ["pairs read", re.compile("dropped: "), "pairs kept"]),
        ("progress", ["training: step 30 of 30"]),
        ("curves", ["training loss", "30 of 30"]),
        ("samples", ["reference", "output"]),
        ("scores", ["chrF", re.compile("tok:13a")]),
        ("report", ["Eleven answers", "The report with its plots"]),
    ],
)
def test_artifacts(ui, page, run, key, texts):
    body = {"artifacts": {"flow_run_id": {"any_": [run]}, "key": {"any_": [f"shown-{key}"]}}, "sort": "CREATED_DESC"}
    artifact = ui.api("/artifacts/filter", body)[0]
    look(page, f"{ui.url}/artifacts/artifact/{artifact['id']}", f"artifact-{key}", *texts)
    if key == "curves":
        pictures = page.locator("img[src^='data:image/svg']")
        pictures.first.wait_for(timeout=30_000)
        sizes = pictures.evaluate_all("all => all.map(one => one.naturalWidth)")
        assert len(sizes) == 3 and all(width > 100 for width in sizes)
    if key == "report":
        link = page.get_by_role("link", name="The report with its plots").get_attribute("href")
        look(page, link, "report", "shown", "Dev BLEU")


def test_the_retry_button_resumes(ui, page):
    """A run that failed because a stage's folder could not be made goes on when the button is pressed."""
    place = ui.data / "store/score"
    place.rename(ui.data / "aside")
    place.write_text("in the way")
    overrides = ["seed=42", "train.ranks=1", "train.steps=4", "train.eval_every=4"]
    failed = ui.deploy_run("experiment/demo", config=str(ui.config), name="pressed", overrides=overrides)
    assert ui.ended(failed) == "Failed"
    place.unlink()
    (ui.data / "aside").rename(place)
    look(page, f"{ui.url}/runs/flow-run/{failed}", "failed", "Failed", "Retry")
    page.get_by_role("button", name="Retry").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    ui.until(lambda: ui.state(failed) not in ("Failed", "AwaitingRetry"), 60)
    assert ui.ended(failed) == "Completed"
    tasks = ui.tasks(failed)
    assert tasks["report"] == tasks["score"] == "Completed"
