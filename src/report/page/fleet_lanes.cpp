// Jobs on the devices of a fleet's nodes over time, and what of the nodes is in use.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "report/page/cell_text.hpp"
#include "report/page/fleet_page.hpp"
#include "report/page/page_data.hpp"
#include "report/page/plot.hpp"

namespace cohort {
namespace {

constexpr double kLanesWidth = 900;
constexpr double kLanesLeft = 66;
constexpr double kLanesRight = 12;
constexpr double kLanesTop = 6;
constexpr double kNodeGap = 4;
constexpr double kUseHeight = 46;
constexpr double kUseRow = 66;  ///< with the name above
constexpr double kLanesBottom = 34;
constexpr std::size_t kWorkloadColours = 7;

/// Devices of a job on a node, one beside the other.
struct DeviceRun {
    int node = 0;
    int device = 0;
    int count = 0;
};

/// The lowest free devices of a job's nodes, which it holds until `end_s`: the results have nodes
/// only, whose devices are all the same. @param free_at  [node][device], seconds
std::vector<DeviceRun> take_devices(std::vector<std::vector<double>>& free_at,
                                    const FleetJobResult& job, double end_s) {
    std::vector<DeviceRun> runs;
    for (const int node : job.worker_nodes) {
        std::vector<double>& devices = free_at.at(static_cast<std::size_t>(node));
        const auto found =
            std::ranges::find_if(devices, [&job](double free_s) { return free_s <= *job.start_s; });
        if (found == devices.end()) {
            continue;
        }
        *found = end_s;
        const int device = static_cast<int>(found - devices.begin());
        if (!runs.empty() && runs.back().node == node &&
            runs.back().device + runs.back().count == device) {
            ++runs.back().count;
        } else {
            runs.push_back({.node = node, .device = device, .count = 1});
        }
    }
    return runs;
}

std::string workload_class(const std::vector<std::string>& workloads, const std::string& of) {
    const auto index =
        static_cast<std::size_t>(std::ranges::find(workloads, of) - workloads.begin());
    return fmt::format("job c{}{}", index % kWorkloadColours,
                       index >= kWorkloadColours ? " pale" : "");
}

std::string job_words(const FleetJobResult& job) {
    std::string text = fmt::format(
        "{}: {}, {}, {}, {}; arrived {} s, started {} s", job.name, job.workload, job.mode,
        counted(job.worker_nodes.size(), "worker"), counted(job.server_nodes.size(), "server"),
        seconds_text(job.arrival_s), seconds_text(*job.start_s));
    if (const auto tta_s = job.tta_s(); tta_s && job.target_s) {
        text += fmt::format(", target after {} s", seconds_text(*tta_s));
    } else if (job.ended()) {
        text += fmt::format(", {} after {} s", job.missed() ? "target missed, over" : "over",
                            seconds_text(*job.completion_s()));
    } else {
        text += fmt::format(", {}", word_of(job.state));
    }
    if (job.room_taken_s && job.room_given_s) {
        text += fmt::format("; {}, took {:.1f} s of room, gave {:.1f} s",
                            counted(static_cast<std::size_t>(job.grants.value_or(0)), "grant"),
                            *job.room_taken_s, *job.room_given_s);
    }
    return text;
}

/// The places in the picture.
struct LanesFrame {
    explicit LanesFrame(const FleetResult& of)
        : row(of.nodes * of.devices_per_node > 160 ? 2 : 4),
          node(row * of.devices_per_node + kNodeGap),
          bottom(kLanesTop + node * of.nodes),
          end_s(std::max(of.makespan_s, of.use.empty() ? 0 : of.use.back().time_s)),
          x{.from = 0, .to = end_s, .begin = kLanesLeft, .end = kLanesWidth - kLanesRight} {}
    double row;
    double node;
    double bottom;
    double end_s;
    Scale x;
};

void add_jobs(Picture& picture, const FleetResult& result, const LanesFrame& frame,
              const std::vector<std::string>& workloads) {
    constexpr double kNarrowest = 0.6;
    std::vector<const FleetJobResult*> jobs;
    for (const FleetJobResult& job : result.jobs) {
        if (job.start_s) {
            jobs.push_back(&job);
        }
    }
    std::ranges::stable_sort(jobs, {}, [](const FleetJobResult* job) { return *job->start_s; });
    std::vector<std::vector<double>> free_at(
        static_cast<std::size_t>(result.nodes),
        std::vector<double>(static_cast<std::size_t>(result.devices_per_node), 0));
    for (const FleetJobResult* job : jobs) {
        const double end_s = job->end_s.value_or(frame.end_s);
        picture.add(fmt::format("<g class=\"{}\"><title>{}</title>",
                                workload_class(workloads, job->workload),
                                escaped(job_words(*job))));
        for (const DeviceRun& run : take_devices(free_at, *job, end_s)) {
            const double begin = frame.x(*job->start_s);
            picture.add(fmt::format(
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", place(begin),
                place(kLanesTop + run.node * frame.node + run.device * frame.row),
                place(std::max(kNarrowest, frame.x(end_s) - begin)), place(run.count * frame.row)));
        }
        picture.add("</g>");
    }
}

/// What of a node is shown below the lanes, as shares 0..1.
struct NodeShare {
    const char* name;
    double (*of)(const FleetUsePoint& point, std::size_t node);
};
constexpr std::array<NodeShare, 3> kNodeShares{
    {{"devices held, %",
      [](const FleetUsePoint& point, std::size_t node) { return point.devices.at(node); }},
     {"processors busy, %",
      [](const FleetUsePoint& point, std::size_t node) { return point.cores.at(node); }},
     {"network cards busy (each node's busier direction), %",
      [](const FleetUsePoint& point, std::size_t node) {
          return std::max(point.rx.at(node), point.tx.at(node));
      }}}};

/// Mean over the nodes as a line, least to most as a band.
void add_share(Picture& picture, const FleetResult& result, const NodeShare& share, const Scale& x,
               double top) {
    const Scale y{.from = 0, .to = 100, .begin = top + kUseRow, .end = top + kUseRow - kUseHeight};
    picture.y_axis(y, kLanesLeft, x.end - x.begin, {0, 50, 100}, "");
    picture.line(x.begin, y.begin, x.end, y.begin, "axis");
    picture.text(kLanesLeft, y.end - 5, "start", share.name, "what");
    std::vector<CurvePoint> curve;
    double since_s = 0;
    for (const FleetUsePoint& point : result.use) {
        double sum = 0;
        double low = 1;
        double high = 0;
        for (std::size_t node = 0; node < point.devices.size(); ++node) {
            const double value = share.of(point, node);
            sum += value;
            low = std::min(low, value);
            high = std::max(high, value);
        }
        const auto nodes = static_cast<double>(point.devices.size());
        for (const double time_s : {since_s, point.time_s}) {
            curve.push_back(
                {.x = time_s, .value = 100 * sum / nodes, .least = 100 * low, .most = 100 * high});
        }
        since_s = point.time_s;
    }
    add_curve(picture, "c0 use", share.name, x, y, curve);
}

}  // namespace

std::string draw_fleet_lanes(const FleetResult& result, const std::string& id,
                             const std::vector<std::string>& workloads) {
    const LanesFrame frame(result);
    if (!(frame.end_s > 0) || result.devices_per_node < 1) {
        return "";
    }
    // On real ranks what others use of a host is not known.
    const auto shares = std::span(kNodeShares).first(result.real ? 1 : kNodeShares.size());
    const double bottom = frame.bottom + kUseRow * static_cast<double>(shares.size());
    Picture picture(id, kLanesWidth, bottom + kLanesBottom,
                    fmt::format("Jobs on the nodes, {}, seed {}", result.label, result.seed),
                    "A box per node with a row per device, coloured by the workload of the job "
                    "that holds it; below them what is in use of the nodes: "
                    "mean over the nodes, and a band from the least to the most.");
    for (int node = 0; node < result.nodes; ++node) {
        const double top = kLanesTop + node * frame.node;
        picture.add(
            fmt::format("<rect class=\"empty\" x=\"{}\" y=\"{}\" width=\"{}\" "
                        "height=\"{}\"/>",
                        place(frame.x.begin), place(top), place(frame.x.end - frame.x.begin),
                        place(frame.node - kNodeGap)));
        picture.text(kLanesLeft - 6, top + (frame.node - kNodeGap) / 2 + 3.5, "end",
                     fmt::format("node {}", node), "what");
    }
    add_jobs(picture, result, frame, workloads);
    double top = frame.bottom;
    for (const NodeShare& share : shares) {
        add_share(picture, result, share, frame.x, top);
        top += kUseRow;
    }
    constexpr int kTicks = 10;
    picture.x_axis(frame.x, bottom, 0, round_ticks(0, frame.end_s, kTicks),
                   result.real ? "time, s" : "virtual time, s");
    return picture.done();
}

std::string workload_legend(const std::vector<std::string>& workloads) {
    std::vector<std::pair<std::string, std::string>> squares;
    for (const std::string& workload : workloads) {
        squares.emplace_back(workload_class(workloads, workload), workload);
    }
    return square_legend(squares);
}

}  // namespace cohort
