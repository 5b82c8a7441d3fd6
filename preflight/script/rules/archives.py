"""R401: archives of webdataset that nothing divides among the ranks."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.registry import Level, RuleHit
from preflight.script.syntax_trees import ByKind

_READS_ARCHIVES = re.compile(r"import webdataset|from webdataset")
_DIVIDES_ARCHIVES = re.compile(r"split_by_node|node_?splitter|single_node|split_by_rank|resampl")


def find_archives_of_all(it: Interpreter) -> Iterator[RuleHit]:
    """Yield WebDatasets that stop in a launch of several processes: nothing divides their files."""
    for source in it.sources.files() if _may_stop(it) else ():
        for call in it.sources.parser.find_by_kind(_list_archives, source.tree):
            message = (
                "WebDataset stops in a launch of several processes where no nodesplitter= divides its files"
            )
            fix = "nodesplitter=wds.split_by_node, or resampled=True with with_epoch(...)"
            yield RuleHit(source.place(call), message, fix, Level.WARNING)


def _may_stop(it: Interpreter) -> bool:
    ranks = it.state.wrapped or it.state.grouped
    return ranks and it.sources.mention(_READS_ARCHIVES) and not it.sources.mention(_DIVIDES_ARCHIVES)


def _list_archives(kinds: ByKind) -> list[ast.Call]:
    calls = (call for call in kinds.get(ast.Call, ()) if get_last_name(call) == "WebDataset")
    return [call for call in calls if len(call.args) == 1 and all(word.arg for word in call.keywords)]
