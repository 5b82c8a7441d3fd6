"""Encoders of transformers whose pooler gets no gradients, as what a module reads of them says."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.syntax_trees import walk

_POOLED = re.compile(
    r"^(?:Bert|Roberta|XLMRoberta|Camembert|Albert|Longformer|BigBird|ViT|DeiT|MPNet|Ernie|Nezha|Data2VecText|Esm|XLMRobertaXL|Xmod|Lilt)Model$"
)
"""Those that take add_pooling_layer=False."""
_OF_POOLED = re.compile(
    r"(?:^|[/_-])(?:bert|roberta|xlm-roberta|camembert|chinese-(?:bert|roberta)|biobert|scibert|legal-bert|finbert"
    r"|codebert|graphcodebert|PubMedBERT|BiomedNLP|albert|mpnet)(?:[-_]|$)",
    re.IGNORECASE,
)
_VISION = re.compile(r"^(?:CLIP|Siglip2?)VisionModel$")
"""Those whose last layer, or head, is of the pooler alone, and which no argument leaves out."""
_OTHERS = re.compile(r"distil|deberta|electra|(?:modern|mobile|conv|squeeze|nomic|jina)-?bert", re.IGNORECASE)
_HIDDEN = frozenset({"last_hidden_state", "hidden_states", "attentions"})


def has_unused_pooler(cls: ast.ClassDef, node: ast.Assign, text: str) -> bool:
    """Whether a class gets an encoder with a pooler, and reads the rest of what it gives."""
    target, made = node.targets[0], node.value
    if not (isinstance(target, ast.Attribute) and isinstance(made, ast.Call)) or not _makes_pooler(made):
        return False
    if "pooler" in text or "pooling_layer" in text:
        return False
    uses = list(_list_results(cls, target.attr))
    return bool(uses) and all(uses)


def describe_remedy(made: ast.expr) -> str:
    """Return how an encoder is made, or trained, without the weights of its pooler."""
    vision = isinstance(made, ast.Call) and any(map(_VISION.match, _names(made.func)))
    return "requires_grad_(False) of its post_layernorm or head" if vision else "add_pooling_layer=False"


def _names(node: ast.expr) -> list[str]:
    """Return the names of `a.b.c`."""
    return [getattr(part, "id", getattr(part, "attr", "")) for part in walk(node)]


def _is_of_pooled(*names: ast.expr) -> bool:
    """Whether a checkpoint has a name of models with a pooler."""
    text = next((str(name.value) for name in names if isinstance(name, ast.Constant)), "")
    return bool(_OF_POOLED.search(text)) and not _OTHERS.search(text)


def _makes_pooler(made: ast.Call) -> bool:
    func = made.func
    if any(word.arg is None for word in made.keywords):
        return False
    if isinstance(func, ast.Attribute) and func.attr in ("from_pretrained", "from_config"):
        func = func.value
    name = getattr(func, "attr", getattr(func, "id", ""))
    known = _POOLED.match(name) or _VISION.match(name)
    return known is not None or (name == "AutoModel" and _is_of_pooled(*made.args[:1]))


def _list_results(cls: ast.ClassDef, name: str) -> Iterator[bool]:
    """Yield of each call of a layer whether its pooler is left out; False for what may read it."""
    for function in (each for each in cls.body if isinstance(each, ast.FunctionDef)):
        nodes = walk(function)
        calls = [
            node
            for node in nodes
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == name
            and getattr(node.func.value, "id", "") == "self"
        ]
        held = {id(node.value): node for node in nodes if isinstance(node, (ast.Attribute, ast.Subscript))}
        named = {id(node.value): node for node in nodes if isinstance(node, ast.Assign)}
        for call in calls:
            if id(call) in held:
                yield _is_hidden(held[id(call)])
            elif id(call) in named:
                yield _reads_hidden(named[id(call)].targets[0], nodes, held)
            else:
                yield False
        passed = (
            node for node in nodes if isinstance(node, ast.Call) for part in node.args if _is_self(part, name)
        )
        yield from (False for _ in passed)


def _is_self(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _reads_hidden(
    target: ast.expr, nodes: list[ast.AST], held: dict[int, ast.Attribute | ast.Subscript]
) -> bool:
    """Whether all that reads what a call gave reads hidden states."""
    if isinstance(target, ast.Tuple):
        rest = [getattr(each, "id", "") for each in target.elts[1:]]
        read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        return read.isdisjoint(rest[:1])
    if not isinstance(target, ast.Name):
        return False
    loads = [
        node
        for node in nodes
        if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load)
    ]
    stores = [node for node in nodes if isinstance(node, ast.Name) and node.id == target.id]
    reads = [id(node) in held and _is_hidden(held[id(node)]) for node in loads]
    return bool(reads) and all(reads) and len(stores) - len(loads) == 1


def _is_hidden(node: ast.Attribute | ast.Subscript) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _HIDDEN
    key = getattr(node.slice, "value", None)
    return key in (0, *_HIDDEN)
