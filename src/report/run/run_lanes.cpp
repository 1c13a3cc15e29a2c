// What workers did over a whole run: shares of their time in columns of the picture's pixels.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>

#include "report/page/cell_text.hpp"
#include "report/page/page_data.hpp"
#include "report/page/run_rows.hpp"
#include "report/run/run_page.hpp"

namespace cohort {
namespace {

constexpr double kRunLanesLeft = 54;
constexpr double kRunLanesRight = 10;
constexpr double kHeading = 15;   ///< a line with the run's name
constexpr double kMarkLine = 14;  ///< a line with the names of marks
constexpr double kBlockGap = 12;
constexpr double kAxis = 32;
constexpr std::size_t kMostLanes = 16;
constexpr RowHeights kRunLaneHeights{
    .row = 21, .bar = 14, .name = 15, .strip = 13, .strip_name = 10, .strip_row = 16};
constexpr double kSlowHeight = 4;  ///< above a lane's bar

/// A part of a worker's time, from the bottom of its lane up. The classes are those of virtual
/// runs' lanes.
struct LaneShare {
    const char* kind;
    const char* name;
    double WorkerColumn::*seconds;
};
constexpr std::array<LaneShare, 4> kLaneShares{
    {{"k2", "computing", &WorkerColumn::compute_s},
     {"k1", "waiting for input", &WorkerColumn::input_s},
     {"k3", "transferring", &WorkerColumn::transfer_s},
     {"k4", "waiting for others", &WorkerColumn::wait_s}}};

/// Workers that were slow or lost first, by what that cost; then the others.
std::vector<int> lane_order(const RunHistory& run) {
    std::vector<double> costs;
    for (const RunColumn& column : run.columns.all()) {
        costs.resize(std::max(costs.size(), column.workers.size()));
    }
    const auto add = [&costs](int worker, double seconds) {
        if (worker >= 0 && static_cast<std::size_t>(worker) < costs.size()) {
            costs[static_cast<std::size_t>(worker)] += seconds;
        }
    };
    for (const StragglerEpisode& slow : run.slow) {
        add(slow.worker, cost_s(slow));
    }
    for (const LostSpan& lost : lost_spans(run)) {
        add(lost.worker, lost.end_s - lost.begin_s);
    }
    std::vector<int> order(costs.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(), [&costs](int worker) {
        return costs[static_cast<std::size_t>(worker)];
    });
    order.resize(std::min(order.size(), kMostLanes));
    return order;
}

/// Modes in force, from the changes and the begin of each part.
std::vector<PlanStretch> modes_of(const RunHistory& run) {
    std::vector<PlanStretch> stretches;
    const auto begin = [&stretches](double at_s, const std::string& label, std::string words) {
        const std::string plan = plan_in_label(label);
        if (!stretches.empty() && stretches.back().plan == plan) {
            return;
        }
        if (!stretches.empty()) {
            stretches.back().end_s = at_s;
        }
        stretches.push_back({.begin_s = at_s, .plan = plan, .words = std::move(words)});
    };
    auto part = run.parts.begin();
    const auto begin_parts = [&](double until_s) {
        for (; part != run.parts.end() && part->begin_s <= until_s; ++part) {
            begin(part->begin_s, part->plan,
                  part == run.parts.begin()
                      ? "at the start"
                      : fmt::format("{}: resumed", moment_text(part->begin_s)));
        }
    };
    begin_parts(0);
    for (const SwitchReport& change : run.changes) {
        if (change.in_force_s) {
            begin_parts(time_of(change));
            begin(time_of(change), change.to,
                  fmt::format("{}: {}; {}", moment_text(time_of(change)), words_of(change),
                              change.why));
        }
    }
    begin_parts(run.end_s);
    stretches.back().end_s = run.end_s;
    return stretches;
}

/// Where the shares of a lane begin and end, from its bottom up.
using LaneEdges = std::array<double, kLaneShares.size() + 1>;

/// Of columns [first, last); none where nothing is known of the worker.
std::optional<LaneEdges> edges_of(const std::vector<RunColumn>& columns, std::size_t worker,
                                  std::size_t first, std::size_t last) {
    WorkerColumn sum;
    for (std::size_t i = first; i < last; ++i) {
        if (worker < columns[i].workers.size()) {
            sum.add(columns[i].workers[worker]);
        }
    }
    if (!(sum.seconds > 0)) {
        return std::nullopt;
    }
    LaneEdges edges{};
    for (std::size_t share = 0; share < kLaneShares.size(); ++share) {
        edges[share + 1] =
            edges[share] + kRunLaneHeights.bar * (sum.*kLaneShares[share].seconds) / sum.seconds;
    }
    for (double& edge : edges) {
        edge = std::round(10 * edge) / 10;  // as it is drawn
    }
    return edges;
}

/// The lane of a worker: a box for each share of columns that are at least a pixel wide, equal
/// neighbours together. @param paths  of the shares, to be continued
void add_lane(std::array<std::string, kLaneShares.size()>& paths, const RunHistory& run,
              std::size_t worker, const Scale& x, double top) {
    const std::vector<RunColumn>& columns = run.columns.all();
    const double width_s = run.columns.width_s();
    const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil(1 / (x(width_s) - x(0)))));
    const auto draw = [&](const LaneEdges& edges, std::size_t first, std::size_t last) {
        const double bottom = top + kRunLaneHeights.bar;
        const double begin = x(static_cast<double>(first) * width_s);
        const double end = x(std::min(run.end_s, static_cast<double>(last) * width_s));
        for (std::size_t share = 0; share < kLaneShares.size(); ++share) {
            if (edges[share + 1] > edges[share]) {
                paths[share] +=
                    fmt::format("M{:.1f} {:.1f}H{:.1f}V{:.1f}H{:.1f}z", begin,
                                bottom - edges[share], end, bottom - edges[share + 1], begin);
            }
        }
    };
    std::optional<LaneEdges> open;
    std::size_t since = 0;
    for (std::size_t first = 0; first < columns.size(); first += step) {
        const auto edges = edges_of(columns, worker, first, std::min(columns.size(), first + step));
        if (edges != open) {
            if (open) {
                draw(*open, since, first);
            }
            open = edges;
            since = first;
        }
    }
    if (open) {
        draw(*open, since, columns.size());
    }
}

void add_lost(Picture& picture, const RowFrame& frame, const RunHistory& run) {
    constexpr double kWord = 24;
    for (const LostSpan& lost : lost_spans(run)) {
        const auto row = std::ranges::find(frame.workers, lost.worker);
        if (row == frame.workers.end()) {
            continue;
        }
        const double top = frame.top_of(static_cast<std::size_t>(row - frame.workers.begin()));
        const double begin = frame.x(lost.begin_s);
        const double end = frame.x(lost.end_s);
        picture.add(fmt::format(
            "<g><title>{}</title><rect class=\"gone\" x=\"{}\" y=\"{}\" width=\"{}\" "
            "height=\"{}\"/>",
            escaped(fmt::format(
                "worker {} lost at {}{}: {}", lost.worker, moment_text(lost.begin_s),
                lost.joined ? ", joined again at " + moment_text(lost.end_s) : "", lost.reason)),
            place(begin), place(top + kSlowHeight), place(std::max(1.0, end - begin)),
            place(kRunLaneHeights.bar)));
        if (end - begin > kWord) {
            picture.text((begin + end) / 2, top + kRunLaneHeights.name, "middle", "lost", "what");
        }
        picture.add("</g>");
    }
}

/// A vertical mark through a run's rows with its name above.
void add_mark(Picture& picture, const RowFrame& frame, double at_s, const std::string& kind,
              const std::string& name) {
    const double at = frame.x(at_s);
    const bool left = at > (frame.x.begin + frame.x.end) / 2;
    picture.line(at, frame.top - 3, at, frame.bottom(), kind);
    picture.text(at + (left ? -3 : 3), frame.top - 4, left ? "end" : "start", name, "what");
}

std::string heading_of(const RunHistory& run, std::size_t lanes) {
    const std::string mode = run.mode();
    const auto workers = static_cast<std::size_t>(run.workers());
    std::string text = run.label == mode ? mode : fmt::format("{} ({})", run.label, mode);
    if (lanes < workers) {
        text += fmt::format(", {} of {}, the slowest first", lanes, counted(workers, "worker"));
    }
    return text;
}

class LanePicture {
public:
    LanePicture(const std::vector<RunHistory>& runs, const std::string& id, double width)
        : runs_(runs), level_(page_level(runs)), picture_(make(id, width)) {}

    std::string draw() {
        const double bottom = frames_.back().bottom();
        constexpr double kTickWidth = 90;
        const Scale& x = frames_.back().x;
        picture_.x_axis(x, bottom + 2, bottom - frames_.front().top,
                        round_ticks(0, x.to, static_cast<int>((x.end - x.begin) / kTickWidth)),
                        "training time, s");
        for (std::size_t i = 0; i < runs_.size(); ++i) {
            add_run(runs_[i], frames_[i]);
        }
        return picture_.done();
    }

private:
    /// Places the runs one below the other.
    Picture make(const std::string& id, double width) {
        double end_s = 0;
        for (const RunHistory& run : runs_) {
            end_s = std::max(end_s, run.end_s);
        }
        double top = 0;
        for (const RunHistory& run : runs_) {
            frames_.push_back({.heights = kRunLaneHeights,
                               .top = top + kHeading + kMarkLine,
                               .workers = lane_order(run),
                               .has_strip = true,
                               .x = {.from = 0,
                                     .to = std::max(end_s, 1e-9),
                                     .begin = kRunLanesLeft,
                                     .end = width - kRunLanesRight}});
            top = frames_.back().bottom() + kBlockGap;
        }
        return {id, width, top - kBlockGap + kAxis, "Workers over time",
                "A lane per worker: shares of its time spent computing, waiting for input, "
                "transferring and waiting for others; above a lane when it was slow, coloured by "
                "the cause. The tables have the same in numbers."};
    }

    void add_run(const RunHistory& run, const RowFrame& frame) {
        picture_.text(0, frame.top - kMarkLine - 4, "start", heading_of(run, frame.workers.size()),
                      "heading");
        add_row_names(picture_, frame);
        std::array<std::string, kLaneShares.size()> paths;
        for (std::size_t row = 0; row < frame.workers.size(); ++row) {
            add_lane(paths, run, static_cast<std::size_t>(frame.workers[row]), frame.x,
                     frame.top_of(row) + kSlowHeight);
        }
        for (std::size_t share = 0; share < paths.size(); ++share) {
            if (!paths[share].empty()) {
                picture_.add(fmt::format("<path class=\"{}\" d=\"{}\"><title>{}</title></path>",
                                         kLaneShares[share].kind, paths[share],
                                         kLaneShares[share].name));
            }
        }
        add_lost(picture_, frame, run);
        add_episodes(picture_, frame, run.slow, kSlowHeight);
        add_plans(picture_, frame, modes_of(run));
        add_marks(run, frame);
    }

    /// Changes of mode, as long as they can be told apart; parts; the level's crossing.
    void add_marks(const RunHistory& run, const RowFrame& frame) {
        constexpr std::size_t kMostMarks = 40;
        std::vector<SwitchReport> switches;
        std::ranges::copy_if(run.changes, std::back_inserter(switches),
                             [](const SwitchReport& one) { return !one.same_mode(); });
        if (switches.size() <= kMostMarks) {
            add_changes(picture_, frame, switches, false);
        }
        for (std::size_t part = 1; part < run.parts.size(); ++part) {
            add_mark(picture_, frame, run.parts[part].begin_s, "change", "resumed");
        }
        if (level_) {
            if (const auto time_s = time_to(run, level_->level)) {
                add_mark(picture_, frame, *time_s, "crossing",
                         fmt::format("{} after {} s", level_->text, seconds_text(*time_s)));
            }
        }
    }

    const std::vector<RunHistory>& runs_;
    std::optional<PageLevel> level_;
    std::vector<RowFrame> frames_;
    Picture picture_;
};

}  // namespace

std::string draw_run_lanes(const std::vector<RunHistory>& runs, const std::string& id,
                           double width) {
    return LanePicture(runs, id, width).draw();
}

std::string run_lane_legend(const std::string& pictures) {
    std::vector<std::pair<std::string, std::string>> squares;
    for (const LaneShare& share : kLaneShares) {
        squares.emplace_back(share.kind, share.name);
    }
    return legend_of(std::move(squares), pictures);
}

}  // namespace cohort
