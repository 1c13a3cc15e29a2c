"""A picture of test accuracy against seconds, one curve per run, from the runs' metrics.jsonl."""

import json
import math
import pathlib

WIDTH, HEIGHT = 560, 300
LETTER = 8  # width of a letter, about
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 64, 244  # margins to the left and right of the plot, its upper and lower edge
COLOURS = ("#d0632b", "#2f81f7", "#2da44e", "#a371f7")  # these and the grey are readable on white and on black


def read(folder):
    """Mode, workers, seconds to the target (or None), and (seconds, accuracy) of the evaluations until then."""
    with open(pathlib.Path(folder) / "metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    end = lines[-1]
    points = [(line["train_s"], line["test_accuracy"]) for line in lines if line["event"] == "evaluation"]
    last = math.inf if end["tta_s"] is None else end["tta_s"]
    return end["mode"], end["workers"], end["tta_s"], [point for point in points if point[0] <= last]


def limits(runs, target):
    """Last second, least and highest accuracy of the plot: all points and the target lie in it, however few."""
    accuracies = [target, *(accuracy for *_, points in runs for _, accuracy in points)]
    least = min(math.floor(10 * min(accuracies)) / 10, 0.9)
    most = max(math.ceil(20 * max(accuracies)) / 20, least + 0.1)
    return max((seconds for *_, points in runs for seconds, _ in points), default=0) or 1, least, most


def step_of(span, most):
    """The smallest of 1, 2, 5, 10, 20, ... that divides `span` into at most `most` parts."""
    power = 10 ** math.floor(math.log10(span / most))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= most)


def draw(folders, target):
    """The picture (SVG) of runs that end when they reach the test accuracy `target`."""
    runs = [read(folder) for folder in folders]
    workers = runs[0][1]
    last, least, most = limits(runs, target)

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
        label = f"{mode}: not reached" if seconds is None else f"{mode}: {seconds:.1f} s"
        at, accuracy = points[-1] if points else (0, least)
        if points:
            curve = " ".join(f"{x(at)},{y(accuracy)}" for at, accuracy in points)
            out += [f'<polyline stroke="{colour}" points="{curve}"/>',
                    f'<circle cx="{x(at)}" cy="{y(accuracy)}" r="5" fill="{colour}"/>']
        else:
            label = f"{mode}: not tested"
        left = float(x(at)) > LETTER * len(label)  # of its point there is space for it
        side = 'dx="5" dy="-11" text-anchor="end"' if left else 'dx="-5" dy="-11" text-anchor="start"'
        out.append(f'<text x="{x(at)}" y="{y(accuracy)}" {side} font-weight="600" style="fill:{colour}">{label}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
