"""What job modules have in common: find one by name, change its configuration, run it from a shell."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from raytide.errors import ConfigError
from raytide.train import ElasticTrainer, RunConfig, ScalingConfig

Config = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A job module, loaded.

    Attributes:
        module: Its import name.
        loop: The training loop; runs once in every replica.
        config: Its configuration, ready to be changed by :meth:`with_settings`.
        note: A sentence that belongs beside the results, or "".
    """

    module: str
    loop: Callable[[Config], None]
    config: Config = field(default_factory=dict)
    note: str = ""

    def with_settings(self, settings: Mapping[str, Any]) -> Job:
        """This job with other values for some of its configuration keys."""
        config = dict(self.config)
        for key, value in settings.items():
            config[key] = _checked(self.module, key, value, config)
        return Job(self.module, self.loop, config, self.note)

    def trainer(self, scaling: ScalingConfig, run: RunConfig | None = None) -> ElasticTrainer:
        """A trainer that runs this job when its ``fit()`` is called."""
        return ElasticTrainer(
            self.loop, train_loop_config=self.config, scaling_config=scaling, run_config=run or RunConfig()
        )


def load_job(module: str) -> Job:
    """Import a job module.

    Raises:
        ConfigError: There is no such module, or it has no ``loop``.
    """
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the job itself misses a dependency: its own message is the better one
        remedy = "Give the import name of a job module, such as raytide.jobs.digits"
        raise ConfigError("job", f"there is no module {module!r}", remedy) from error
    loop = getattr(found, "loop", None)
    if not callable(loop):
        remedy = "A job module defines loop(config) and CONFIG"
        raise ConfigError("job", f"module {module!r} has no function loop", remedy)
    return Job(module, loop, dict(getattr(found, "CONFIG", {})), getattr(found, "NOTE", ""))


def parse_workers(text: str) -> tuple[int, int]:
    """``"1:4"`` is one to four replicas, ``"2"`` always two."""
    parts = text.split(":")
    if len(parts) > 2 or not all(part.strip().isdigit() for part in parts):
        raise ConfigError("workers", f"{text!r} is not a range of replicas", "Write MIN:MAX, such as 1:4")
    least, most = int(parts[0]), int(parts[-1])
    if least < 1 or most < least:
        raise ConfigError("workers", f"{text!r} is empty", "Write MIN:MAX with 1 <= MIN <= MAX")
    return least, most


def parse_settings(pairs: Sequence[str], epochs: int | None = None) -> Config:
    """``["lr=0.1", "name=x"]`` as a dict; values are Python literals, or else text. ``epochs`` is one of its own."""
    settings: Config = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError("set", f"{pair!r} is no setting", "Write KEY=VALUE, such as --set epochs=3")
        settings[key.strip()] = _literal(text.strip())
    if epochs is not None:
        settings["epochs"] = epochs
    return settings


def main(module: str) -> None:
    """Run a job module as a program: ``python -m raytide.jobs.digits --workers 1:4``.

    The module is imported by name although it runs as ``__main__``, so that its classes are the same
    ones in every replica.
    """
    job = load_job(module)

    def run(
        workers: Annotated[str, typer.Option(help="Replicas, MIN:MAX.")] = "1:4",
        epochs: Annotated[int | None, typer.Option(help="Short for --set epochs=N.", min=1)] = None,
        settings: Annotated[
            list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting (see above).")
        ] = None,
        gpu: Annotated[bool, typer.Option("--gpu", help="One GPU for each replica.")] = False,
    ) -> None:
        try:
            chosen = job.with_settings(parse_settings(settings or [], epochs))
            scaling = ScalingConfig(num_workers=parse_workers(workers), use_gpu=gpu)
        except ConfigError as error:
            raise typer.BadParameter(str(error)) from error
        if chosen.note:
            typer.echo(chosen.note)
        result = chosen.trainer(scaling).fit()
        typer.echo(format_metrics(result.metrics))

    about = importlib.import_module(module).__doc__ or ""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    settable = ", ".join(f"{key}={value!r}" for key, value in job.config.items())
    app.command(help=f"{about}\n\nSettings: {settable}")(run)
    app(prog_name=f"python -m {module}")


def format_metrics(metrics: Mapping[str, Any] | None) -> str:
    """Metrics on one line: ``accuracy 0.9917  loss 0.004``."""
    return "  ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in sorted((metrics or {}).items())
    )


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _checked(module: str, key: str, value: Any, config: Config) -> Any:
    """A new value for a key, converted where nothing is lost (an int for a float)."""
    if key not in config:
        raise ConfigError(f"{module}: {key}", "there is no such setting", f"Choose from {', '.join(config)}")
    default = config[key]
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if default is not None and type(value) is not type(default):
        problem = f"{value!r} is of type {type(value).__name__}"
        remedy = f"Give a {type(default).__name__}, such as {default!r}"
        raise ConfigError(f"{module}: {key}", problem, remedy)
    return value
