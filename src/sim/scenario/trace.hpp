#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sched/recorded/trace.hpp"

namespace cohort {

/// Another job on the same nodes, which trains nothing and takes its share of everything.
struct JobArrival {
    double time_s = 0;
    int workers = 1;
    int servers = 1;
    int first_node = 0;           ///< worker i is on node (first_node + i) mod nodes
    std::int64_t batch = 64;      ///< samples of a worker's iteration
    std::int64_t iterations = 0;  ///< of each worker, then it leaves
};

/// What happens to a cluster, in order of time, possibly without end. Pure.
class Scenario {
public:
    Scenario() = default;
    Scenario(const Scenario&) = delete;
    Scenario& operator=(const Scenario&) = delete;
    virtual ~Scenario() = default;
    /// The next row, times not descending; none: nothing changes any more.
    [[nodiscard]] virtual std::optional<TraceRow> next_row() = 0;
    /// What the next iteration of a worker takes longer than others of it, seconds.
    /// @param moment  reference batches that the job has done when it begins
    [[nodiscard]] virtual double next_delay_s(int /*worker*/, std::int64_t /*moment*/) { return 0; }
    /// The next job to arrive; none: no more.
    [[nodiscard]] virtual std::optional<JobArrival> next_job() { return std::nullopt; }
};

/// What a pattern is laid over.
struct ClusterShape {
    int workers = 1;
    int nodes = 1;
    std::vector<int> worker_nodes;  ///< [workers]
    std::vector<int> server_nodes;  ///< [servers]
    double iteration_s = 0;         ///< of a healthy worker, > 0: lengths of patterns count in it
};

/// Worker i of N on node i*K/N, server s of S on node s*K/S, K nodes; or servers on nodes of their
/// own behind these, one each.
[[nodiscard]] ClusterShape spread_over_nodes(int workers, int nodes, int servers,
                                             bool own_server_nodes, double iteration_s);

/// "NAME[:STRENGTH]": healthy, persistent, delay, half, transient, blip, onoff, clustered,
/// bandwidth, colocated, server-hot, storm; "jitter[:STRENGTH[:LAW[:BETWEEN[:OVER]]]]";
/// "recorded:NAME" or "recorded:FILE"; docs/patterns.md says what each does. STRENGTH is by how
/// much who is slow is slower (2: twice the time). The same seed gives the same scenario.
/// Errors: UsageError listing the patterns, or for a strength below 1; FileError for a recording.
[[nodiscard]] std::unique_ptr<Scenario> make_pattern(std::string_view pattern,
                                                     const ClusterShape& shape, std::uint64_t seed);
/// Names, the default strength of each, and what it does in a line.
struct PatternInfo {
    std::string name;
    double strength = 1;
    std::string what;
    bool by_iteration = false;  ///< delays of single iterations, which no row of a trace can hold
};
[[nodiscard]] const std::vector<PatternInfo>& patterns();

/// Rows in order of time, from a file or a recording.
[[nodiscard]] std::unique_ptr<Scenario> make_scenario(std::vector<TraceRow> rows);
/// What --trace names: a trace, whose targets are checked, or a recording of times by iteration,
/// which is told by its header. Errors: FileError; UsageError as check_targets.
[[nodiscard]] std::unique_ptr<Scenario> read_scenario(const std::string& path,
                                                      const ClusterShape& shape,
                                                      std::uint64_t seed);
/// Rows of a scenario before a time; the first one after it is lost. Errors: UsageError for more
/// than a million.
[[nodiscard]] std::vector<TraceRow> rows_until(Scenario& scenario, double time_s);

/// Errors: UsageError, naming `where`, when a row concerns a worker or node that is not there.
void check_targets(std::span<const TraceRow> rows, int workers, int nodes, std::string_view where);

/// Workers as rows, time as columns, shade by speed: for terminals (columns characters wide), and
/// as a self-contained SVG. Speed is that of an iteration all of which is slowed by the scarcest
/// of the worker's shares, delays on top; 1: healthy. Servers have rows when they are ever slower.
/// @param end_s > 0  Errors: UsageError when a row's target is not in the shape.
[[nodiscard]] std::string draw_trace_text(const std::vector<TraceRow>& rows,
                                          const ClusterShape& shape, double end_s, int columns);
[[nodiscard]] std::string draw_trace_svg(const std::vector<TraceRow>& rows,
                                         const ClusterShape& shape, double end_s);

}  // namespace cohort
