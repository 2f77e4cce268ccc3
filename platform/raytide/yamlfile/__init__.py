"""YAML files that people write: read into pydantic models, and refused with file, line, field and what to do."""

from raytide.yamlfile.document import YamlFile, parse_yaml

__all__ = ["YamlFile", "parse_yaml"]
