"""A document, and the mistakes in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from raytide.errors import ConfigError
from raytide.yamlfile.plain import PlainLoader, check_plain
from raytide.yamlfile.words import did_you_mean, fields_at, in_plain_words

ModelT = TypeVar("ModelT", bound=BaseModel)
Path: TypeAlias = Sequence[str | int]
"""Keys and positions that lead from the top of a document to a value."""

MAX_CHARACTERS = 1_000_000
"""Larger files are refused unread."""


@dataclass(frozen=True)
class YamlFile:
    """A document that is YAML; what it means is still to be seen.

    Attributes:
        file: Its name, for errors.
        value: What it says, as :func:`json.loads` would give it.
        root: Where it says it; None if it is empty.
    """

    file: str
    value: Any
    root: yaml.Node | None

    def read(self, model: type[ModelT]) -> ModelT:
        """The document as a ``model``.

        Raises:
            ConfigError: It is none; of several mistakes, unknown fields come first, as they explain missing ones.
        """
        try:
            return model.model_validate(self.value)
        except ValidationError as error:
            first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
            raise self._mistake(model, first) from error

    def refuse(self, path: Path, error: ConfigError) -> ConfigError:
        """An error about the value at ``path``, with its file and line."""
        return ConfigError(f"{self.file}, line {_find(self.root, path)[0]}, {error.field}", error.problem, error.remedy)

    def _mistake(self, model: type[BaseModel], found: Any) -> ConfigError:
        path, cause = tuple(found["loc"]), found.get("ctx", {}).get("error")
        if isinstance(cause, ConfigError):
            path += (cause.field,) if cause.field else ()
            return self._at(path, cause.problem, cause.remedy)
        inside = fields_at(model, path[:-1])
        if found["type"] == "extra_forbidden":
            return self._at(path, "there is no such field", did_you_mean(str(path[-1]), inside))
        if found["type"] == "missing":
            return self._at(path[:-1], "is missing", f"Known: {', '.join(inside)}", str(path[-1]))
        return self._at(path, *in_plain_words(found, ", ".join(fields_at(model, path))))

    def _at(self, path: Path, problem: str, remedy: str, missing: str = "") -> ConfigError:
        line, key = _find(self.root, path)
        name = missing or key
        return ConfigError(f"{self.file}, line {line}{f', field {name!r}' if name else ''}", problem, remedy)


def parse_yaml(text: str, file: str) -> YamlFile:
    """A document of YAML.

    Args:
        text: The document.
        file: Its name, for errors.

    Raises:
        ConfigError: It is none, a key stands twice in one mapping, or it is far too large.
    """
    if len(text) > MAX_CHARACTERS:
        problem = f"it has {len(text):,} characters, and {MAX_CHARACTERS:,} are read"
        raise ConfigError(f"{file}, line 1", problem, "Give the file that you meant")
    loader = None
    try:
        loader = PlainLoader(text)
        root = loader.get_single_node()
        check_plain(loader, root, file)
        return YamlFile(file, None if root is None else loader.construct_document(root), root)
    except ConfigError:
        raise
    except yaml.MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line
        raise _no_yaml(file, line, str(error.problem)) from error
    except yaml.reader.ReaderError as error:
        raise _no_yaml(file, text[: error.position].count("\n"), str(error).splitlines()[0]) from error
    except RecursionError as error:
        raise _no_yaml(file, loader.get_mark().line if loader else 0, "it is nested too deeply") from error
    except (ValueError, OverflowError) as error:  # PyYAML's own: "\UFFFFFFFF", or a number with too many digits
        raise _no_yaml(file, loader.get_mark().line if loader else 0, str(error)) from error


def _find(node: yaml.Node | None, path: Path) -> tuple[int, str]:
    """Line (from 1) and key of the innermost part of a path that is there; steps of pydantic's own are left out."""
    line, key = 0, ""
    for step in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line
        elif isinstance(node, yaml.MappingNode):
            # The last one counts: what << brought stands in front.
            found = next((pair for pair in reversed(node.value) if pair[0].value == step), None)
            if found is not None:
                line, key, node = found[0].start_mark.line, found[0].value, found[1]
    return line + 1, key


def _no_yaml(file: str, line: int, problem: str) -> ConfigError:
    return ConfigError(f"{file}, line {line + 1}", f"no YAML: {problem}", "See the example in the documentation")
