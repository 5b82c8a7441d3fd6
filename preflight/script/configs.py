"""Configuration files that a script reads from beside itself: YAML and JSON, as values with their places.

The file is looked for beside the script and in the folder it would be started from; nothing else is read.
What a launch could override (hydra's words, environment interpolation) stays unknown where it is not plain.
"""

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.script.reading import Place
from preflight.script.values import NONE, UNKNOWN, Const, Map, Scalar, Seq, Value, text_of

if TYPE_CHECKING:
    import yaml

    from preflight.script.interpreter import Interpreter

_ENDINGS = (".yaml", ".yml", ".json")
_MAX_DEPTH = 20


def loaded(it: "Interpreter", path: Value | None) -> Value:
    """Return what a configuration file holds, Unknown when it is not to be found or not plain."""
    name = text_of(path)
    if name is None or not name.endswith(_ENDINGS):
        return UNKNOWN
    for candidate in _candidates(it, name):
        text = it.sources.text(candidate)
        if text is not None:
            return parsed(text, candidate)
    return UNKNOWN


def _candidates(it: "Interpreter", name: str) -> Iterator[str]:
    """Yield where a relative name may lie: the folder of the script, of the module, and that above."""
    yield posixpath.normpath(name)
    for folder in dict.fromkeys((it.source.package, posixpath.dirname(it.source.path))):
        yield posixpath.normpath(posixpath.join(folder, name))
    yield posixpath.normpath(posixpath.join(it.source.package, "..", name))


def parsed(text: str, path: str) -> Value:
    """Return the content of a YAML or JSON text, each entry with its place."""
    import yaml  # noqa: PLC0415 - only scripts that read a configuration need it

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return UNKNOWN if node is None else _value(node, path, _MAX_DEPTH)
    except (yaml.YAMLError, ValueError, RecursionError):
        return UNKNOWN


def _place(node: "yaml.Node", path: str) -> Place:
    return Place(path, node.start_mark.line + 1, node.start_mark.column + 1)


def _value(node: "yaml.Node", path: str, depth: int) -> Value:
    import yaml  # noqa: PLC0415

    if depth == 0:
        return UNKNOWN
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, _place(node, path))
    if isinstance(node, yaml.SequenceNode):
        return Seq(tuple(_value(item, path, depth - 1) for item in node.value))
    items: dict[Scalar, Value] = {}
    places: dict[Scalar, Place] = {}
    is_open = False
    for key, inner in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
            is_open = True
            continue
        items[key.value] = _value(inner, path, depth - 1)
        places[key.value] = _place(key, path)
    return Map(tuple(items.items()), is_open, places)


_WORDS: dict[str, Scalar] = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _scalar(node: "yaml.ScalarNode", place: Place) -> Value:
    text = str(node.value)
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return NONE
    if kind == "bool":
        return Const(_WORDS.get(text.lower()), place)
    try:
        if kind == "int":
            return Const(int(text.replace("_", ""), 0), place)
        if kind == "float":
            return Const(float(text.replace("_", "")), place)
    except ValueError:
        return UNKNOWN
    return UNKNOWN if "${" in text else Const(text, place)
