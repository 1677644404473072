"""Settings files: YAML and `section.key=value` go in, a frozen, fully checked `Experiment` comes out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from nmt.cluster.preflight import gpu_count
from nmt.config import CONFIGS, ROOT, Experiment
from nmt.errors import ConfigError, choices
from nmt.model.processor import settled

NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")


def load(config: str | Path, overrides: list[str] | tuple[str, ...] = (), name: str | None = None) -> Experiment:
    """Read a settings file (a path, or a name in config/), apply `section.key=value` overrides, check it all.

    What `train.precision: auto` means on this machine is settled here, so that it is part of every key.
    """
    path = find(config)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected sections such as 'train:', found {type(content).__name__}")
    content.setdefault("name", NOT_IN_NAMES.sub("-", path.stem.lower()).lstrip("._-") or "experiment")
    for override in overrides:
        apply_override(content, override)
    if name is not None:
        content["name"] = name
    experiment = check(content, str(path))
    if experiment.download.mirror:  # not checked in the model: a finished run's settings outlive its mirror
        experiment.download.mirror_folder()
    return experiment.model_copy(update={"train": settled(experiment.train, gpu=gpu_count() > 0)})


def find(config: str | Path) -> Path:
    """The settings file meant by a path or by a name in config/."""
    for path in (Path(config), CONFIGS / f"{config}.yaml", ROOT / config):
        if path.is_file():
            return path
    names = [path.stem for path in CONFIGS.glob("*.yaml")]
    raise ConfigError(f"no settings file '{config}'; {choices(Path(config).stem, names)}")


def apply_override(content: dict[str, Any], override: str) -> None:
    """Put one `section.key=value` (the value is YAML) into `content`."""
    dotted, equals, value = override.partition("=")
    if not equals or not all(dotted.split(".")):
        raise ConfigError(f"--set {override}: expected section.key=value, for example train.steps=500")
    *sections, key = dotted.split(".")
    place = content
    for section in sections:
        place = place.setdefault(section, {})
        if not isinstance(place, dict):
            raise ConfigError(f"--set {override}: '{section}' holds a value, not a section")
    try:
        place[key] = yaml.safe_load(value)
    except (yaml.YAMLError, ValueError):
        raise ConfigError(f"--set {override}: '{value}' is not valid YAML") from None


def check(content: dict[str, Any], where: str) -> Experiment:
    """`content` as an `Experiment`, or one `ConfigError` that lists everything wrong with it."""
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        lines = [explain([str(part) for part in item["loc"]], item) for item in error.errors()]
        raise ConfigError("\n  ".join([f"{where}:", *lines]) if len(lines) > 1 else f"{where}: {lines[0]}") from None


def explain(loc: list[str], item: Any) -> str:
    """One pydantic error as `path: what is wrong, what was found, what is allowed`."""
    path = ".".join(loc)
    if item["type"] == "extra_forbidden":
        fields = model_at(loc[:-1]).model_fields
        return f"{path}: unknown key; {choices(loc[-1], fields)}"
    message = item["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    value = item["input"]
    shown = "" if isinstance(value, (dict, BaseModel)) else f", found {value!r}"
    return f"{path}: {message}{shown}" if path else f"{message}{shown}"


def model_at(loc: list[str]) -> type[BaseModel]:
    """The settings class at a path such as `["download", "train"]`."""
    model: type[BaseModel] = Experiment
    for part in loc:
        annotation = model.model_fields[part].annotation
        options = [annotation, *getattr(annotation, "__args__", ())]
        model = next(option for option in options if isinstance(option, type) and issubclass(option, BaseModel))
    return model
