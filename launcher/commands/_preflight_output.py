"""What `gpulaunch preflight` prints and writes. Loaded while the first host answers."""

import json
import time

from launcher.commands._answer import leave_page
from launcher.commands._preflight_options import PreflightCommandOptions
from launcher.commands._preflight_report import render_todays_report
from launcher.host_checks.answers import encode_preflight_summary
from launcher.host_checks.render_json import build_preflight_document
from launcher.host_checks.render_text import render_report
from launcher.host_checks.result import PreflightResult
from launcher.report.deep import DeepReport, encode_deep, render_deep_report
from launcher.terminal.json_text import lay_out_pieces
from launcher.terminal.output import echo_json_pieces, echo_json_text, echo_lines, lacks_utf8
from launcher.version import read_version

_JSON_DEPTH = 4  # down to a line for each finding of each host


def show_preflight(
    result: PreflightResult, options: PreflightCommandOptions, deep: DeepReport | None = None
) -> None:
    """Print the result as the options say, and write the page."""
    if options.as_jsonl:
        echo_json_text(json.dumps(encode_preflight_summary(result)))
    elif options.as_json:
        document = build_preflight_document(result, facts=options.facts)
        if deep is not None:
            document["deep"] = encode_deep(deep)
        echo_json_pieces(lay_out_pieces(document, depth=_JSON_DEPTH))
    elif not options.is_page_alone:
        if deep is not None:
            echo_lines(render_deep_report(encode_deep(deep), ascii_only=lacks_utf8()))
        files = options.recordings or options.smi_files
        report = render_report if files else render_todays_report
        echo_lines(report(result, verbose=options.verbose))
    if options.page is not None:
        from launcher.report.preflight_page.page import render_preflight_page  # noqa: PLC0415 - only for a page

        measured = None if deep is None else encode_deep(deep)
        page = render_preflight_page(result, made_at=time.time(), version=read_version(), deep=measured)
        leave_page(page, options.page)
