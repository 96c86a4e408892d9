"""The page of a sweep: one self-contained HTML file of interactive plots."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kdlgt.train.run_folder import RunFolder
from kdlgt_tuning.domains import Choice
from kdlgt_tuning.files import SweepFolder
from kdlgt_tuning.objective import Objective
from kdlgt_tuning.outcome import TrialOutcome, counts, pareto_front, ranked
from kdlgt_tuning.space import Parameter, Space
from kdlgt_tuning.tables import short_names, shown

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1c2330; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } .note { color: #5b6575; }
table { border-collapse: collapse; font-size: .85rem; }
td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #e5e8ee; }
"""
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon")
SMALL_PLOT = 300


def write_page(folder: SweepFolder, outcomes: Sequence[TrialOutcome], space: Space, objective: Objective) -> None:
    """Write ``report.html``: metric against each parameter, parallel coordinates, error against time, all trials."""
    scored = [outcome for outcome in outcomes if outcome.scored]
    words = ", ".join(f"{number} {status}" for status, number in counts(outcomes).items())
    parts = [f"<h1>{html.escape(folder.path.name)}: {len(outcomes)} trials</h1>", f'<p class="note">{words}</p>']
    if scored:
        parts += [
            f"<h2>Validation {html.escape(objective.metric)} against each parameter</h2>",
            _inline(against_parameters(scored, space, objective), library=True),
            "<h2>Parallel coordinates</h2>",
            _inline(parallel_coordinates(scored, space, objective)),
            "<h2>Error against time</h2>",
            _inline(error_against_time(scored, space, objective)),
        ]
    parts += ["<h2>Trials</h2>", _table(ranked(outcomes, objective), space, objective)]
    head = f'<meta charset="utf-8"><title>{html.escape(folder.path.name)}</title><style>{STYLE}</style>'
    body = "\n".join(parts)
    RunFolder(folder.path).write_text(
        folder.report, f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}\n</body></html>\n'
    )


def against_parameters(outcomes: Sequence[TrialOutcome], space: Space, objective: Objective) -> Figure:
    """One small plot per parameter."""
    from plotly.subplots import make_subplots

    names = short_names([parameter.path for parameter in space.parameters])
    columns = min(len(names), 3)
    rows = math.ceil(len(names) / columns)
    figure = make_subplots(rows, columns, subplot_titles=list(names), shared_yaxes=True)
    for index, parameter in enumerate(space.parameters):
        row, column = index // columns + 1, index % columns + 1
        values = [axis_value(parameter, outcome.values[parameter.path]) for outcome in outcomes]
        figure.add_scatter(
            x=values,
            y=[outcome.score for outcome in outcomes],
            text=[_hover(outcome, names) for outcome in outcomes],
            mode="markers",
            marker={"size": 9, "color": [_colour(outcome) for outcome in outcomes]},
            row=row,
            col=column,
        )
        figure.update_xaxes(type=axis_type(parameter), row=row, col=column)
    figure.update_yaxes(title_text=f"val {objective.metric}", col=1)
    figure.update_layout(showlegend=False, height=SMALL_PLOT * rows + 60, margin={"t": 40, "b": 40})
    return figure


def axis_type(parameter: Parameter) -> str:
    """How an axis over a parameter is spaced."""
    domain = parameter.domain
    if not isinstance(domain, Choice):
        return "log" if domain.log else "linear"
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in domain.values)
    return "linear" if numbers and len(domain.values) == 1 else "category"


def axis_value(parameter: Parameter, value: Any) -> Any:
    """What stands on an axis; choices are texts, in the order of the space."""
    return str(value) if isinstance(parameter.domain, Choice) else value


def _colour(outcome: TrialOutcome) -> str:
    return "#2a6fdb" if outcome.status == "finished" else "#b9c2d0"


def _hover(outcome: TrialOutcome, names: dict[str, str]) -> str:
    values = "<br>".join(f"{name} = {shown(outcome.values[path])}" for path, name in names.items())
    return f"{html.escape(outcome.name)} ({outcome.status}, {outcome.epoch} epochs)<br>{values}"


def parallel_coordinates(outcomes: Sequence[TrialOutcome], space: Space, objective: Objective) -> Figure:
    """One line per trial through its values, coloured by its score."""
    from plotly.graph_objects import Figure, Parcoords

    names = short_names([parameter.path for parameter in space.parameters])
    scores = [outcome.score for outcome in outcomes]
    dimensions = [
        {"label": names[parameter.path], **_coordinate(parameter, [one.values[parameter.path] for one in outcomes])}
        for parameter in space.parameters
    ]
    dimensions.append({"label": "s/epoch", "values": [outcome.seconds_per_epoch for outcome in outcomes]})
    dimensions.append({"label": f"val {objective.metric}", "values": scores})
    line = {"color": scores, "colorscale": "Viridis", "reversescale": objective.mode == "min", "showscale": True}
    figure = Figure(Parcoords(line=line, dimensions=dimensions))
    figure.update_layout(height=420, margin={"t": 60, "b": 30})
    return figure


def _coordinate(parameter: Parameter, values: Sequence[Any]) -> dict[str, Any]:
    """Positions on one axis, with labels where the position is not the value."""
    domain = parameter.domain
    if isinstance(domain, Choice):
        texts = [str(value) for value in domain.values]
        return {
            "values": [texts.index(str(value)) for value in values],
            "tickvals": list(range(len(texts))),
            "ticktext": texts,
        }
    if not domain.log:
        return {"values": list(values), "range": [domain.low, domain.high]}
    ends = [domain.low, math.sqrt(domain.low * domain.high), domain.high]
    return {
        "values": [math.log10(value) for value in values],
        "tickvals": [math.log10(end) for end in ends],
        "ticktext": [f"{end:.3g}" for end in ends],
    }


def error_against_time(outcomes: Sequence[TrialOutcome], space: Space, objective: Objective) -> Figure:
    """What accuracy costs: error over time per epoch, the Pareto front as a line, r as colour, K as symbol."""
    from plotly.graph_objects import Figure

    names = short_names([parameter.path for parameter in space.parameters])
    colour, symbol = _role(space, "num_features", 0), _role(space, "max_anchors", 1)
    front = pareto_front(outcomes, objective)
    figure = Figure()
    figure.add_scatter(
        x=[outcome.seconds_per_epoch for outcome in front],
        y=[error_of(outcome, objective) for outcome in front],
        mode="lines",
        line={"shape": "hv", "color": "#888888"},
        name="Pareto front",
    )
    for value, group in _groups(outcomes, symbol):
        figure.add_scatter(
            x=[outcome.seconds_per_epoch for outcome in group],
            y=[error_of(outcome, objective) for outcome in group],
            text=[_hover(outcome, names) for outcome in group],
            mode="markers",
            name=value if symbol is None else f"{names[symbol.path]} = {value}",
            marker={"size": 11, "symbol": _symbol(symbol, value), **_colours(group, colour, names)},
        )
    figure.update_xaxes(title_text="seconds per epoch (median)", type="log")
    figure.update_yaxes(title_text=error_name(objective))
    figure.update_layout(height=480, margin={"t": 30}, coloraxis={"colorscale": "Plasma"}, legend={"x": 1.15})
    if colour is not None:
        figure.update_layout(coloraxis_colorbar_title_text=names[colour.path])
    return figure


def error_of(outcome: TrialOutcome, objective: Objective) -> float:
    """``1 - score`` for scores up to 1 that are maximised, else the score itself."""
    return 1.0 - outcome.score if objective.mode == "max" else outcome.score


def error_name(objective: Objective) -> str:
    """What :func:`error_of` is."""
    return f"1 - val {objective.metric}" if objective.mode == "max" else f"val {objective.metric}"


def _role(space: Space, wanted: str, place: int) -> Parameter | None:
    """The parameter of a name, else the one at a place among the others."""
    named = [parameter for parameter in space.parameters if parameter.path.endswith(f".{wanted}")]
    return named[0] if named else dict(enumerate(space.parameters)).get(place)


def _groups(outcomes: Sequence[TrialOutcome], parameter: Parameter | None) -> list[tuple[str, list[TrialOutcome]]]:
    """Trials by the value of a parameter that has few; one group without one."""
    if parameter is None or not isinstance(parameter.domain, Choice):
        return [("trials", list(outcomes))]
    texts = [str(value) for value in parameter.domain.values]
    groups = [(text, [one for one in outcomes if str(one.values[parameter.path]) == text]) for text in texts]
    return [(text, group) for text, group in groups if group]


def _symbol(parameter: Parameter | None, value: str) -> str:
    if parameter is None or not isinstance(parameter.domain, Choice):
        return SYMBOLS[0]
    return SYMBOLS[[str(one) for one in parameter.domain.values].index(value) % len(SYMBOLS)]


def _colours(group: Sequence[TrialOutcome], parameter: Parameter | None, names: dict[str, str]) -> dict[str, Any]:
    values = [] if parameter is None else [outcome.values[parameter.path] for outcome in group]
    if not values or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return {"color": "#2a6fdb"}
    return {"color": values, "coloraxis": "coloraxis"}


def _inline(figure: Figure, *, library: bool = False) -> str:
    text: str = figure.to_html(full_html=False, include_plotlyjs=library)
    return text


def _table(outcomes: Sequence[TrialOutcome], space: Space, objective: Objective) -> str:
    names = short_names([parameter.path for parameter in space.parameters])
    head = ["trial", *names.values(), f"val {objective.metric}", "epochs", "s/epoch", "status", "error"]
    rows = [
        [
            one.name,
            *(shown(one.values[path]) for path in names),
            shown(one.score),
            str(one.epoch),
            shown(one.seconds_per_epoch),
            one.status,
            one.error,
        ]
        for one in outcomes
    ]
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{html.escape(cell)}</th>' for cell in head)}</tr>{cells}</table>"
