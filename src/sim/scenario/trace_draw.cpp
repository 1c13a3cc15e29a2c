#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "cohort/core/error.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {
namespace {

/// Workers' lanes; when there are more workers a lane is the mean of several.
constexpr int kMostLanes = 64;

/// A row of a picture.
struct TraceLane {
    std::string name;
    std::vector<double> speed;  ///< [columns], mean over the column's time; 1: healthy
};

/// Characters by speed, from this on.
struct Shade {
    double from = 0;
    std::string_view mark;
    std::string_view what;
};
constexpr std::array<Shade, 5> kShades{{
    {0.95, "·", "full speed"},
    {0.75, "░", "from 75 %"},
    {0.5, "▒", "from 50 %"},
    {0.25, "▓", "from 25 %"},
    {0, "█", "slower"},
}};
/// Rounding must not turn a speed of one half into less.
constexpr double kRounding = 1e-9;

std::string_view mark_of(double speed) {
    const auto* shade = std::find_if(kShades.begin(), kShades.end(), [&](const Shade& each) {
        return speed + kRounding >= each.from;
    });
    return shade == kShades.end() ? kShades.back().mark : shade->mark;
}

std::string legend() {
    std::string text;
    for (const Shade& shade : kShades) {
        text += fmt::format("{}{} {}", text.empty() ? "" : "   ", shade.mark, shade.what);
    }
    return text;
}

std::size_t longest_name(const std::vector<TraceLane>& lanes) {
    std::size_t longest = 0;
    for (const TraceLane& lane : lanes) {
        longest = std::max(longest, lane.name.size());
    }
    return longest;
}

/// Round times on an axis, about `count` of them.
std::vector<double> ticks(double end_s, int count) {
    const double power = std::pow(10, std::floor(std::log10(end_s / count)));
    double step = 10 * power;
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power * count >= end_s) {
            step = factor * power;
            break;
        }
    }
    std::vector<double> times;
    for (int i = 0; i * step <= end_s * (1 + kRounding); ++i) {
        times.push_back(i * step);
    }
    return times;
}

/// Where things are in the SVG, in its units.
struct Layout {
    double left = 0;
    double width = 800;
    double top = 30;
    double pitch = 18;  ///< from lane to lane
    double lane = 14;   ///< a lane's height
    int columns = 400;
};

constexpr std::string_view kStyle =
    "<style>\n"
    "svg { background: #ffffff; font: 12px system-ui, sans-serif; }\n"
    "text { fill: #1f2328; } .axis { stroke: #8c959f; } .lane { fill: #e7edf3; }\n"
    ".slow { fill: #b42318; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "svg { background: #14171a; } text { fill: #e6e9ec; } .axis { stroke: #707981; }\n"
    ".lane { fill: #2a3138; } .slow { fill: #ff8a75; } }\n"
    "</style>\n";

/// A lane's name, its ground, and a rectangle for each stretch of the same slowness.
std::string lane_svg(const TraceLane& lane, double y, const Layout& layout, double end_s) {
    const double column = layout.width / layout.columns;
    std::string svg = fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n"
        "<rect class=\"lane\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n",
        layout.left - 8, y + layout.lane - 3, lane.name, layout.left, y, layout.width, layout.lane);
    const auto percent = [&](std::size_t i) { return std::lround(100 * lane.speed[i]); };
    for (std::size_t first = 0; first < lane.speed.size();) {
        std::size_t last = first + 1;
        while (last < lane.speed.size() && percent(last) == percent(first)) {
            ++last;
        }
        if (percent(first) < 100) {
            const double unit = end_s / layout.columns;
            svg += fmt::format(
                "<rect class=\"slow\" x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\""
                " fill-opacity=\"{:.2f}\"><title>{}, {:.4g} to {:.4g} s: {} %</title></rect>\n",
                layout.left + column * static_cast<double>(first), y,
                column * static_cast<double>(last - first), layout.lane,
                1 - static_cast<double>(percent(first)) / 100, lane.name,
                unit * static_cast<double>(first), unit * static_cast<double>(last),
                percent(first));
        }
        first = last;
    }
    return svg;
}

std::string axis_svg(double y, const Layout& layout, double end_s) {
    std::string svg = fmt::format(
        "<line class=\"axis\" x1=\"{0:.0f}\" x2=\"{1:.0f}\" y1=\"{2:.0f}\" "
        "y2=\"{2:.0f}\"/>\n",
        layout.left, layout.left + layout.width, y);
    for (const double time_s : ticks(end_s, 8)) {
        const double x = layout.left + layout.width * time_s / end_s;
        svg += fmt::format(
            "<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\"/>\n"
            "<text x=\"{0:.1f}\" y=\"{3:.0f}\" text-anchor=\"middle\">{4:g} s</text>\n",
            x, y, y + 4, y + 17, time_s);
    }
    return svg;
}

/// Adds up speed over time, by columns.
class Course {
public:
    Course(double end_s, int columns)
        : column_s_(end_s / columns), sums_(static_cast<std::size_t>(columns)) {}

    /// From `time_s` on, not before the last call's.
    void set(double time_s, double speed) {
        add(time_s);
        speed_ = speed;
    }
    /// Mean speed of each column. To be called once, at the end.
    [[nodiscard]] std::vector<double> means() {
        add(column_s_ * static_cast<double>(sums_.size()));
        for (double& sum : sums_) {
            sum /= column_s_;
        }
        return std::move(sums_);
    }

private:
    void add(double until_s) {
        for (; since_s_ < until_s && at_ < sums_.size();) {
            const double border = column_s_ * static_cast<double>(at_ + 1);
            const double end = std::min(until_s, border);
            sums_[at_] += (end - since_s_) * speed_;
            since_s_ = end;
            at_ += end >= border ? 1 : 0;
        }
    }

    double column_s_;
    std::vector<double> sums_;
    std::size_t at_ = 0;
    double since_s_ = 0;
    double speed_ = 1;
};

double speed_of(const Shares& own, const Shares& node, double iteration_s) {
    const double scarcest =
        std::min({own.cpu * node.cpu, own.device * node.device, node.rx, node.tx});
    return 1 / (1 / scarcest + (own.delay_s + node.delay_s) / iteration_s);
}

/// Courses of all workers and of the nodes that have servers.
class Courses {
public:
    Courses(const ClusterShape& shape, double end_s, int columns)
        : shape_(shape),
          workers_(static_cast<std::size_t>(shape.workers), Course(end_s, columns)),
          own_(static_cast<std::size_t>(shape.workers)),
          nodes_(static_cast<std::size_t>(shape.nodes)) {
        for (std::size_t i = 0; i < shape.worker_nodes.size(); ++i) {
            on_node_.emplace(shape.worker_nodes[i], i);
        }
        for (const int node : shape.server_nodes) {
            servers_.emplace(node, Course(end_s, columns));
        }
    }

    void take(const TraceRow& row) {
        const auto index = static_cast<std::size_t>(row.target.index);
        if (row.target.kind == TraceTarget::Kind::kWorker) {
            own_[index] = row.shares;
            put(index, row.time_s);
            return;
        }
        nodes_[index] = row.shares;
        const auto [first, last] = on_node_.equal_range(row.target.index);
        for (auto at = first; at != last; ++at) {
            put(at->second, row.time_s);
        }
        if (const auto server = servers_.find(row.target.index); server != servers_.end()) {
            server->second.set(row.time_s,
                               std::min({row.shares.cpu, row.shares.rx, row.shares.tx}));
        }
    }

    [[nodiscard]] std::vector<double> of_worker(std::size_t index) {
        return workers_[index].means();
    }
    [[nodiscard]] std::vector<double> of_server(int node) {
        return Course(servers_.at(node)).means();
    }

private:
    void put(std::size_t worker, double time_s) {
        const auto node = static_cast<std::size_t>(shape_.worker_nodes[worker]);
        workers_[worker].set(time_s, speed_of(own_[worker], nodes_[node], shape_.iteration_s));
    }

    const ClusterShape& shape_;
    std::vector<Course> workers_;
    std::vector<Shares> own_;
    std::vector<Shares> nodes_;
    std::multimap<int, std::size_t> on_node_;
    std::map<int, Course> servers_;
};

/// The mean of workers [first, last).
TraceLane workers_lane(Courses& courses, int first, int last) {
    TraceLane lane{.name = last - first == 1 ? fmt::format("worker {}", first)
                                             : fmt::format("workers {}-{}", first, last - 1),
                   .speed = {}};
    for (int worker = first; worker < last; ++worker) {
        const std::vector<double> speed = courses.of_worker(static_cast<std::size_t>(worker));
        lane.speed.resize(speed.size());
        for (std::size_t i = 0; i < speed.size(); ++i) {
            lane.speed[i] += speed[i] / (last - first);
        }
    }
    return lane;
}

/// Lanes of all workers, and below them those of servers that are ever slower. Speed counts the
/// scarcest share of what somebody has, and delays.
std::vector<TraceLane> trace_lanes(const std::vector<TraceRow>& rows, const ClusterShape& shape,
                                   double end_s, int columns) {
    check_invariant(end_s > 0 && columns > 0 && shape.iteration_s > 0,
                    "a picture has a size and its iterations a length");
    check_targets(rows, shape.workers, shape.nodes, "trace");
    Courses courses(shape, end_s, columns);
    for (const TraceRow& row : rows) {
        if (row.time_s < end_s) {
            courses.take(row);
        }
    }
    const int together = (shape.workers + kMostLanes - 1) / kMostLanes;
    std::vector<TraceLane> lanes;
    for (int first = 0; first < shape.workers; first += together) {
        lanes.push_back(workers_lane(courses, first, std::min(shape.workers, first + together)));
    }
    for (std::size_t server = 0; server < shape.server_nodes.size(); ++server) {
        const std::vector<double> speed = courses.of_server(shape.server_nodes[server]);
        if (*std::min_element(speed.begin(), speed.end()) < 1 - 1e-9) {
            lanes.push_back({.name = fmt::format("server {}", server), .speed = speed});
        }
    }
    return lanes;
}

}  // namespace

std::string draw_trace_text(const std::vector<TraceRow>& rows, const ClusterShape& shape,
                            double end_s, int columns) {
    constexpr int kLeast = 10;
    const std::size_t names = longest_name(trace_lanes(rows, shape, end_s, 1));
    const int width = std::max(kLeast, columns - static_cast<int>(names) - 2);
    std::string text;
    for (const TraceLane& lane : trace_lanes(rows, shape, end_s, width)) {
        text += fmt::format("{:<{}} ", lane.name, names + 1);
        for (const double speed : lane.speed) {
            text += mark_of(speed);
        }
        text += '\n';
    }
    const std::string end = fmt::format("{:g} s", end_s);
    const auto room = static_cast<std::size_t>(width);
    text += fmt::format("{:<{}} {:<{}}{}\n", "", names + 1, "0 s",
                        std::max(room, end.size() + 4) - end.size(), end);
    return text + legend() + "\n";
}

std::string draw_trace_svg(const std::vector<TraceRow>& rows, const ClusterShape& shape,
                           double end_s) {
    Layout layout;
    const std::vector<TraceLane> lanes = trace_lanes(rows, shape, end_s, layout.columns);
    layout.left = 20 + 7 * static_cast<double>(longest_name(lanes));
    const double bottom = layout.top + layout.pitch * static_cast<double>(lanes.size());
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
        "aria-labelledby=\"title desc\">\n<title id=\"title\">Speed of {} workers over {:g} s"
        "</title>\n<desc id=\"desc\">A lane per worker, time from left to right; the stronger the "
        "colour, the slower.</desc>\n{}<text x=\"{:.0f}\" y=\"18\">speed over time: the stronger "
        "the colour, the slower</text>\n",
        layout.left + layout.width + 30, bottom + 30, shape.workers, end_s, kStyle, layout.left);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        svg +=
            lane_svg(lanes[i], layout.top + layout.pitch * static_cast<double>(i), layout, end_s);
    }
    return svg + axis_svg(bottom + 2, layout, end_s) + "</svg>\n";
}

}  // namespace cohort
