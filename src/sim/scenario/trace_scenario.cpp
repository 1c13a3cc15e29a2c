#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cohort/core/error.hpp"
#include "data/file/text_file.hpp"
#include "sim/scenario/pattern_parts.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {
namespace {

/// Of a scenario that is written or drawn as a whole.
constexpr std::size_t kMostRows = 1'000'000;

class RecordedScenario final : public Scenario {
public:
    explicit RecordedScenario(std::vector<TraceRow> rows) : rows_(std::move(rows)) {
        std::stable_sort(rows_.begin(), rows_.end(),
                         [](const TraceRow& a, const TraceRow& b) { return a.time_s < b.time_s; });
    }
    std::optional<TraceRow> next_row() override {
        return next_ < rows_.size() ? std::optional(rows_[next_++]) : std::nullopt;
    }

private:
    std::vector<TraceRow> rows_;
    std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Scenario> make_scenario(std::vector<TraceRow> rows) {
    return std::make_unique<RecordedScenario>(std::move(rows));
}

std::unique_ptr<Scenario> read_scenario(const std::string& path, const ClusterShape& shape,
                                        std::uint64_t seed) {
    const std::string text = read_text_file(path);
    if (is_recording(text)) {
        auto scenario = std::make_unique<PatternScenario>();
        scenario->add(recorded_delays({parse_recording(path, text), seed}));
        return scenario;
    }
    std::vector<TraceRow> rows = read_trace(path);
    check_targets(rows, shape.workers, shape.nodes, "--trace");
    return make_scenario(std::move(rows));
}

std::vector<TraceRow> rows_until(Scenario& scenario, double time_s) {
    std::vector<TraceRow> rows;
    for (auto row = scenario.next_row(); row && row->time_s < time_s; row = scenario.next_row()) {
        if (rows.size() == kMostRows) {
            fail<UsageError>(
                {.where = "--length-s",
                 .what = fmt::format("more than {} changes", kMostRows),
                 .expected = fmt::format("at most {:g} s of this pattern", row->time_s),
                 .got = fmt::format("{:g}", time_s)});
        }
        rows.push_back(*row);
    }
    return rows;
}

ClusterShape spread_over_nodes(int workers, int nodes, int servers, bool own_server_nodes,
                               double iteration_s) {
    check_invariant(workers > 0 && nodes > 0 && servers >= 0, "a cluster has workers and nodes");
    const auto node_of = [nodes](int index, int count) {
        return static_cast<int>(std::int64_t{index} * nodes / count);
    };
    ClusterShape shape{.workers = workers,
                       .nodes = nodes + (own_server_nodes ? servers : 0),
                       .worker_nodes = {},
                       .server_nodes = {},
                       .iteration_s = iteration_s};
    for (int worker = 0; worker < workers; ++worker) {
        shape.worker_nodes.push_back(node_of(worker, workers));
    }
    for (int server = 0; server < servers; ++server) {
        shape.server_nodes.push_back(own_server_nodes ? nodes + server : node_of(server, servers));
    }
    return shape;
}

void check_targets(std::span<const TraceRow> rows, int workers, int nodes, std::string_view where) {
    for (const TraceRow& row : rows) {
        const bool node = row.target.kind == TraceTarget::Kind::kNode;
        const int count = node ? nodes : workers;
        if (row.target.index < 0 || row.target.index >= count) {
            fail<UsageError>(
                {.where = where,
                 .what = fmt::format("a row at {} s concerns a {} that is not there", row.time_s,
                                     node ? "node" : "worker"),
                 .expected = fmt::format("{0}:0 to {0}:{1}", node ? "node" : "worker", count - 1),
                 .got = to_string(row.target)});
        }
    }
}

}  // namespace cohort
