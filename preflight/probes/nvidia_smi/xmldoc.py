"""The XML of `nvidia-smi -q -x` as a tree of plain dicts."""

import re
from typing import Any
from xml.etree import ElementTree as ET

from ..fact import Json

_STRAY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\w{1,8});)|<(?![\w/!?])")
"""Names of processes are command lines, in which drivers leave `&&` and `<` as they are."""
_DEEPEST = 40  # nvidia-smi nests seven deep


def parse_xml(text: str) -> Json:
    """Return an XML document of nvidia-smi as nested dicts; a tag that comes again makes a list.

    Raises ValueError where the text is not well-formed or defines entities (no recording does; bombs do).
    """
    if "<!ENTITY" in text:
        raise ValueError("the XML defines entities, which nvidia-smi never does")
    text = re.sub(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
    text = _STRAY.sub(lambda mark: "&lt;" if mark[0] == "<" else "&amp;", text)
    end = text.rfind("</nvidia_smi_log>")
    try:
        root = ET.fromstring(text[: end + len("</nvidia_smi_log>")] if end >= 0 else text)  # noqa: S314
    except ET.ParseError as error:
        raise ValueError("the XML is cut or malformed: %s" % error) from None
    if root.tag != "nvidia_smi_log":
        raise ValueError("the XML is not nvidia-smi's: its root is <%s>" % root.tag[:40])
    tree = _element(root)
    return tree if isinstance(tree, dict) else {}


def _element(element: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise ValueError("the XML is nested deeper than nvidia-smi's")
    if len(element) == 0:
        return (element.text or "").strip()
    tree: Json = {}
    if element.get("id"):
        tree["@id"] = element.get("id")
    for child in element:
        value = _element(child, depth + 1)
        if child.tag not in tree:
            tree[child.tag] = value
        elif isinstance(tree[child.tag], list):
            tree[child.tag].append(value)
        else:
            tree[child.tag] = [tree[child.tag], value]
    return tree
