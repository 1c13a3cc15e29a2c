"""What is asked of the mode `adaptive`, computed from a sweep's results.csv."""

import math
import statistics

OURS = "adaptive"
HEALTHY = "healthy"
RIVALS = ["ssgd", "asgd", "sync-switch", "lgc:1", "zeno++", "ssgd-or-asgd", "ring"]
PROPORTIONAL = ["persistent:2", "half:2", "clustered:2"]
NOT_BALANCED = ["delay:2", "bandwidth:5", "onoff:3", "transient:5"]


class Table:
    """Times to the target by (mode, pattern, seed); infinite where it was not reached."""

    def __init__(self, rows):
        self.time = {}
        self.accuracy = {}
        for row in rows:
            key = (row["mode"], row["pattern"], row["seed"])
            self.time[key] = float(row["tta_virtual_s"] or "inf")
            self.accuracy[key] = float(row["accuracy"])
        self.modes = list(dict.fromkeys(key[0] for key in self.time))
        self.patterns = list(dict.fromkeys(key[1] for key in self.time))

    def ratios(self, mode, other, patterns):
        """time(mode) / time(other) - 1 of all pairs of which one at least reached the target."""
        found = []
        for (name, pattern, seed), time in self.time.items():
            against = self.time.get((other, pattern, seed))
            if name == mode and pattern in patterns and against is not None:
                if math.isfinite(against):
                    found.append(time / against - 1)
                elif math.isfinite(time):
                    found.append(-1.0)
        return found

    def accuracies(self, mode, pattern):
        return [value for (name, where, _), value in self.accuracy.items()
                if (name, where) == (mode, pattern)]

    def regrets(self, mode, fixed):
        found = []
        for (name, pattern, seed), time in self.time.items():
            runs = [self.time.get((other, pattern, seed)) for other in fixed]
            if name == mode and None not in runs and math.isfinite(min(runs)):
                found.append(time / min(runs) - 1)
        return found


def percent(value):
    return f"{100 * value:+.0f} %" if math.isfinite(value) else "not reached"


def middle(values):
    return percent(statistics.median(values)) if values else "-"


def against(table, names, patterns):
    """"ssgd -40 %, asgd -52 %": medians of those that the sweep has."""
    return ", ".join(f"{name} {middle(table.ratios(OURS, name, patterns))}"
                     for name in names if name in table.modes and table.ratios(OURS, name, patterns))


def target_rows(rows, baselines, fixed):
    """(what, target, measured) for every target that the sweep can tell of.
    @param baselines  modes that adaptive is compared with  @param fixed  of which the oracle is made"""
    table = Table(rows)
    slow = [pattern for pattern in table.patterns if pattern != HEALTHY]
    lines = [("time against each baseline, all pairs", "never above +3 %",
              against(table, baselines, table.patterns))]
    lines.append(("time against these, all but healthy",
                  "-48 to -84 % with servers, -51 to -70 % with rings",
                  against(table, RIVALS, slow)))
    for what, target, patterns in (
            ("time against lb-bsp, slowness in proportion", "level", PROPORTIONAL),
            ("time against lb-bsp, slowness that balancing does not cure", "-30 % or less",
             NOT_BALANCED)):
        here = [pattern for pattern in patterns if pattern in table.patterns]
        lines.append((what, target, ", ".join(
            f"{pattern} {middle(table.ratios(OURS, 'lb-bsp', [pattern]))}" for pattern in here)))
    regrets = table.regrets(OURS, fixed)
    if regrets:
        lines.append(("regret against the oracle", "median 5 %, worst 15 %",
                      f"median {middle(regrets)}, worst {percent(max(regrets))}"))
    reference = "ssgd" if "ssgd" in table.modes else "ring"
    healthy = table.ratios(OURS, reference, [HEALTHY])
    if healthy:
        ours, theirs = (statistics.median(table.accuracies(mode, HEALTHY))
                        for mode in (OURS, reference))
        lines.append((f"healthy cluster, against {reference}", "time within 2 %, accuracy within 0.3 points",
                      f"{middle(healthy)}, {100 * (ours - theirs):+.2f} points"))
    return lines
