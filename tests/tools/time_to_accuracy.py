"""A picture of test accuracy against seconds, one curve per run, from the runs' metrics.jsonl."""

import json
import math
import pathlib

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 64, 244  # margins to the left and right of the plot, its upper and lower edge
COLOURS = ("#d0632b", "#2f81f7", "#2da44e", "#a371f7")  # these and the grey are readable on white and on black


def read(folder):
    """Mode, workers, seconds to the target (or None), and (seconds, accuracy) of the evaluations until then."""
    with open(pathlib.Path(folder) / "metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    end = lines[-1]
    points = [(line["train_s"], line["test_accuracy"]) for line in lines if line["event"] == "evaluation"]
    last = end["tta_s"] or points[-1][0]
    return end["mode"], end["workers"], end["tta_s"], [point for point in points if point[0] <= last]


def step_of(span, most):
    """The smallest of 1, 2, 5, 10, 20, ... that divides `span` into at most `most` parts."""
    power = 10 ** math.floor(math.log10(span / most))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= most)


def draw(folders, target):
    """The picture (SVG) of runs that end when they reach the test accuracy `target`."""
    runs = [read(folder) for folder in folders]
    workers = runs[0][1]
    last = max(points[-1][0] for *_, points in runs)
    least = math.floor(10 * min(accuracy for *_, points in runs for _, accuracy in points)) / 10
    most = math.ceil(20 * max(accuracy for *_, points in runs for _, accuracy in points)) / 20

    def x(seconds):
        return f"{LEFT + (WIDTH - LEFT - RIGHT) * seconds / last:.1f}"

    def y(accuracy):
        return f"{BOTTOM - (BOTTOM - TOP) * (accuracy - least) / (most - least):.1f}"

    title = f"Test accuracy, one of {workers} workers at a quarter of the others' speed"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
           'font-family="system-ui, sans-serif" font-size="15" role="img">', f"<title>{title}</title>",
           "<style>text{fill:#737b85}.axis{stroke:#8888;stroke-width:1}.target{stroke:#888;stroke-dasharray:5 4}"
           "polyline{fill:none;stroke-width:2.5;stroke-linejoin:round}</style>",
           f'<text x="8" y="22" font-weight="600">{title}</text>']
    for tenth in range(round(10 * least), math.floor(10 * most) + 1):
        height = y(tenth / 10)
        out += [f'<line class="axis" x1="{LEFT}" y1="{height}" x2="{WIDTH - RIGHT}" y2="{height}"/>',
                f'<text x="{LEFT - 8}" y="{height}" dy="5" text-anchor="end">{10 * tenth} %</text>']
    step = step_of(last, 6)
    for number in range(math.floor(last / step) + 1):
        out.append(f'<text x="{x(number * step)}" y="{BOTTOM + 22}" text-anchor="middle">{number * step:g}</text>')
    out += [f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{BOTTOM + 44}" text-anchor="middle">seconds</text>',
            f'<line class="target" x1="{LEFT}" y1="{y(target)}" x2="{WIDTH - RIGHT}" y2="{y(target)}"/>']
    for (mode, _, seconds, points), colour in zip(runs, COLOURS):
        curve = " ".join(f"{x(at)},{y(accuracy)}" for at, accuracy in points)
        end = f'cx="{x(points[-1][0])}" cy="{y(points[-1][1])}"'
        label = f"{mode}: {seconds:.1f} s" if seconds else f"{mode}: not reached"
        out += [f'<polyline stroke="{colour}" points="{curve}"/>', f'<circle {end} r="5" fill="{colour}"/>',
                f'<text x="{x(points[-1][0])}" y="{y(points[-1][1])}" dx="5" dy="-11" text-anchor="end" '
                f'font-weight="600" style="fill:{colour}">{label}</text>']
    return "\n".join([*out, "</svg>"]) + "\n"
