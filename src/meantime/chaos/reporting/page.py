"""The report as one page that needs nothing else: a timeline of what got on while what was broken, and the tables."""

from html import escape

from meantime.chaos.checks.model import INVARIANTS
from meantime.chaos.reporting.report import Capability, DoneFault, SuiteReport, counted

WIDTH, LEFT, ROW, TOP = 1100, 90, 54, 34
COLOURS = {
    "kill": "#c0392b",
    "freeze": "#2e86c1",
    "partition": "#8e44ad",
    "power": "#111111",
    "clock": "#b7950b",
    "disk": "#ba4a00",
}

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1140px;padding:0 1rem;color:#1c2833;background:#fff}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;border-bottom:1px solid #d5d8dc;text-align:left}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.good{color:#1e8449}.bad{color:#c0392b}
svg{width:100%;height:auto;font:12px system-ui,sans-serif}h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
code{background:#f2f3f4;padding:.1rem .3rem}
"""


def page(report: SuiteReport) -> str:
    colour = "good" if report.good else "bad"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Chaos, seed {report.seed}: {escape(report.verdict)}</title><style>{_STYLE}</style></head><body>
<h1>Seed {report.seed}: <span class="{colour}">{escape(report.verdict)}</span></h1>
<p><code>{escape(report.command)}</code>: {counted(len(report.faults), "fault")} in {report.ended - report.began:.0f} s,
{report.replicas} of each service.</p>
{"".join(f"<p>Left out: {escape(what)}</p>" for what in report.left_out)}
{timeline(report)}
<p>Bars: how much got on in each stretch of time. Bands: a fault, from its beginning until the stack was whole again;
darker while its cause lasted.</p>
<h2>Faults and the gaps they made</h2>{_faults(report)}
<h2>Findings</h2>{_findings(report)}
<h2>Controls</h2><p>A planted defect that a check does not see makes its verdict worthless.</p>{_controls(report)}
<h2>Counts</h2>{_counts(report)}
</body></html>
"""


def timeline(report: SuiteReport) -> str:
    height = TOP + ROW * len(report.capabilities) + 30
    span = max(report.ended - report.began, 1.0)
    scale = (WIDTH - LEFT - 10) / span
    bands = "".join(_band(fault, report.began, scale, height) for fault in report.faults)
    rows = "".join(
        _row(name, one, report.began, span, TOP + ROW * index)
        for index, (name, one) in enumerate(report.capabilities.items())
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="What got on while what was broken">'
        f"{bands}{rows}{_axis(span, scale, height)}</svg>"
    )


def _band(fault: DoneFault, began: float, scale: float, height: int) -> str:
    x = LEFT + (fault.began - began) * scale
    whole, lasted = max((fault.whole - fault.began) * scale, 1.5), max((fault.mended - fault.began) * scale, 1.5)
    colour = COLOURS.get(fault.kind, "#566573")
    tall = height - TOP - 20
    return (
        f"<g><title>{fault.number}. {escape(fault.done or fault.said)}</title>"
        f'<rect x="{x:.1f}" y="{TOP - 6}" width="{whole:.1f}" height="{tall}" fill="{colour}" opacity=".12"/>'
        f'<rect x="{x:.1f}" y="{TOP - 6}" width="{lasted:.1f}" height="{tall}" fill="{colour}" opacity=".3"/>'
        f'<text x="{x:.1f}" y="{TOP - 12}" fill="{colour}">{fault.number}</text></g>'
    )


def _row(name: str, one: Capability, began: float, span: float, top: int) -> str:
    bins = 260
    counts = [0] * bins
    for moment in one.at:
        if 0 <= (index := int((moment - began) / span * bins)) < bins:
            counts[index] += 1
    most = max(*counts, 1)
    step = (WIDTH - LEFT - 10) / bins
    bottom = top + ROW - 10
    bars = "".join(
        f'<rect x="{LEFT + index * step:.1f}" y="{bottom - count / most * (ROW - 16):.1f}" width="{step * 0.9:.2f}" '
        f'height="{count / most * (ROW - 16):.1f}"/>'
        for index, count in enumerate(counts)
        if count
    )
    return f'<text x="4" y="{bottom - 12}">{escape(name)}</text><g fill="#34495e" opacity=".8">{bars}</g>'


def _axis(span: float, scale: float, height: int) -> str:
    step = next((step for step in (5, 10, 30, 60, 300, 600) if span / step <= 15), 1800)
    ticks = "".join(
        f'<text x="{LEFT + second * scale:.1f}" y="{height - 6}" fill="#566573">{second} s</text>'
        for second in range(0, int(span) + 1, step)
    )
    return f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{height - 20}" y2="{height - 20}" stroke="#aeb6bf"/>{ticks}'


def _faults(report: SuiteReport) -> str:
    names = "".join(f'<th class="n">{escape(name)}</th>' for name in report.capabilities)
    rows = "".join(
        f'<tr><td class="n">{fault.number}</td><td class="n">{fault.began - report.began:.0f} s</td>'
        f"<td>{escape(fault.said)}</td><td>{escape(fault.done)}</td>"
        f'<td class="n">{fault.whole - fault.began:.1f} s</td>'
        + "".join(f'<td class="n">{one.gaps[index]:.1f} s</td>' for one in report.capabilities.values())
        + "</tr>"
        for index, fault in enumerate(report.faults)
    )
    fixed = '<th class="n">#</th><th class="n">at</th><th>planned</th><th>done</th><th class="n">whole after</th>'
    head = f"<tr>{fixed}{names}</tr>"
    return f"<table>{head}{rows}</table>"


def _findings(report: SuiteReport) -> str:
    if not report.findings:
        return '<p class="good">None.</p>'
    rows = "".join(
        f"<tr><td>{escape(one.capability)}</td><td>{escape(INVARIANTS[one.invariant])}</td><td>{escape(one.subject)}</td>"
        f"<td>{escape(one.detail)}</td></tr>"
        for one in report.findings[:500]
    )
    return f'<table class="bad">{rows}</table>'


def _controls(report: SuiteReport) -> str:
    rows = "".join(
        f"<tr><td>{escape(one.capability)}</td><td>{escape(one.name)}</td>"
        f"<td>{'in what was recorded' if one.recorded else 'in a sample'}</td>"
        f'<td class="{"good" if one.caught else "bad"}">{"found" if one.caught else "not found"}</td></tr>'
        for one in report.controls
    )
    return f"<table>{rows}</table>"


def _counts(report: SuiteReport) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(', '.join(f'{n} {what}' for what, n in one.counts.items()))}</td></tr>"
        for name, one in report.capabilities.items()
    )
    return f"<table>{rows}</table>"
