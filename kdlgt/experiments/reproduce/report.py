"""One self-contained HTML page of any number of experiments: verdicts first, pictures and tables after them."""

from __future__ import annotations

import base64
import html
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from kdlgt.experiments.reproduce.claims import Claim
from kdlgt.experiments.reproduce.folder import picture_path
from kdlgt.experiments.reproduce.outcome import Entry, Outcome, Table
from kdlgt.train.run_folder import RunFolder

LONGEST_TABLE = 60
"""Rows of a table on the page; longer ones are in the CSV file."""

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1c2330; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 3rem; border-top: 2px solid #d5dae3; padding-top: 1rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; } .note { color: #5b6575; font-size: .9rem; }
table { border-collapse: collapse; font-size: .85rem; } .scroll { overflow-x: auto; }
td, th { padding: .2rem .7rem; text-align: left; border-bottom: 1px solid #e5e8ee; vertical-align: top; }
img { max-width: 100%; height: auto; } code { background: #f5f6f9; padding: .1rem .3rem; }
.verdict { white-space: nowrap; font-weight: 600; } .holds { color: #1a7f37; } .fails { color: #b42318; }
.open { color: #8a6d1b; }
"""

_CLASS = {"holds": "holds", "does not hold": "fails", "not tested": "open"}


@attrs.frozen(eq=False, kw_only=True)
class Section:
    """An experiment on the page.

    Attributes:
        name: the experiment.
        folder: where its pictures are.
        command: the command that repeats it.
        seconds: how long it took.
        outcome: what came out; ``None`` when it could not be run.
        reason: why it could not.
    """

    name: str
    folder: pathlib.Path
    command: str
    seconds: float
    outcome: Outcome | None
    reason: str = ""


def write_report(path: pathlib.Path, title: str, sections: Sequence[Section], described: Mapping[str, Any]) -> None:
    """Write the page; ``described`` is the machine, as in ``environment.json``."""
    claims = [(section, claim) for section in sections if section.outcome for claim in section.outcome.claims]
    body = [
        f"<h1>{html.escape(title)}</h1>",
        _machine(described, sum(section.seconds for section in sections)),
        _verdicts(claims),
        *(_section(section) for section in sections),
    ]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
    text = f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{"".join(body)}\n</body></html>\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    RunFolder(path.parent).write_text(path, text)


def _machine(described: Mapping[str, Any], seconds: float) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in described["versions"].items() if version)
    commit = f", commit {described['commit'][:12]}" if described.get("commit") else ""
    text = (
        f"{described['time']}, seed {described['seed']}, {seconds / 60:.1f} minutes. Python {described['python']}, "
        f"{described['platform']}, {described['cpus']} CPUs. {versions}{commit}."
    )
    return f'<p class="note">{html.escape(text)}</p>'


def _verdicts(claims: Sequence[tuple[Section, Claim]]) -> str:
    if not claims:
        return ""
    rows = (
        f'<tr><td><a href="#{section.name}">{section.name}</a></td><td>{html.escape(claim.text)}</td>'
        f"{_verdict(claim)}<td>{html.escape(claim.measured)}</td></tr>"
        for section, claim in claims
    )
    head = "<tr><th>where</th><th>the paper's claim</th><th>verdict</th><th>measured</th></tr>"
    return f'<h3>The paper\'s claims</h3><div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _verdict(claim: Claim) -> str:
    return f'<td class="verdict {_CLASS[claim.verdict]}">{claim.verdict}</td>'


def _section(section: Section) -> str:
    if section.outcome is None:
        return f'<h2 id="{section.name}">{section.name}</h2><p>Could not be run: {html.escape(section.reason)}</p>'
    outcome = section.outcome
    parts = [
        f'<h2 id="{section.name}">{html.escape(outcome.title)}</h2>',
        f"<p>{html.escape(outcome.summary)}</p>",
        f"<p><code>{html.escape(section.command)}</code> ({section.seconds:.0f} s)</p>",
        _settings(outcome.settings),
        *(_picture(section.folder, picture.name, picture.title) for picture in outcome.pictures),
        *map(_table, outcome.tables),
        *(f'<p class="note">{html.escape(note)}</p>' for note in outcome.notes),
    ]
    return "\n".join(parts)


def _settings(settings: Mapping[str, Any]) -> str:
    listed = "; ".join(f"{name}: {value}" for name, value in settings.items())
    return f'<p class="note">Settings: {html.escape(listed)}.</p>'


def _picture(folder: pathlib.Path, name: str, title: str) -> str:
    data = base64.b64encode(picture_path(folder, name).read_bytes()).decode("ascii")
    caption = html.escape(title)
    return f'<h3>{caption}</h3><img alt="{caption}" src="data:image/png;base64,{data}">'


def _table(table: Table) -> str:
    title = html.escape(table.title)
    if len(table.rows) > LONGEST_TABLE:
        return f'<p class="note">{title}: {len(table.rows)} rows in <code>{table.name}.csv</code>.</p>'
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in table.rows)
    return f'<h3>{title}</h3><div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _cells(row: Iterable[Entry]) -> str:
    return "".join(f"<td>{html.escape(_text(entry))}</td>" for entry in row)


def _text(entry: Entry) -> str:
    if entry is None:
        return ""
    if not isinstance(entry, float):
        return str(entry)
    return f"{entry:,.0f}" if 1e4 <= abs(entry) < 1e7 else f"{entry:.4g}"
