#include "train/bench/profile_measure.hpp"

#include <algorithm>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "train/server/server_shard.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kPieces = 8;

/// A server's shard without a network: pushes are made locally.
class LoneServer {
public:
    LoneServer(const Graph& graph, const ShardRange& range, const OptimizerOptions& optimizer)
        : shard_(graph, range, optimizer, 1) {
        shard_.initialise(1, 0);
    }

    [[nodiscard]] double bytes(int pushes) const {
        return static_cast<double>(shard_.range().floats()) * sizeof(float) * (pushes + 4 + 1);
    }
    /// Seconds of an update that sums `pushes` and releases its parameters.
    double update(int pushes) {
        FireOrder order;
        order.update = {.version = shard_.version() + 1, .fraction = 1, .learning_rate = 1e-6};
        for (std::int32_t worker = 0; worker < pushes; ++worker) {
            const PushId id{.worker = worker,
                            .sequence = static_cast<std::uint64_t>(order.update.version)};
            stage(id);
            order.update.terms.push_back({.push = id, .coefficient = 1.0 / pushes});
        }
        order.releases.push_back({.worker = 0});
        const ThreadCpuClock clock;
        const Clock::Seconds before = clock.now();
        FireOutput output = shard_.prepare(order);
        shard_.fire(order, output, [](std::int64_t) {});
        const double seconds = (clock.now() - before).count();
        held_ = std::move(
            output);  // as in a run, where a release is sent while the next one is computed
        return seconds;
    }

private:
    void stage(const PushId& id) {
        const Message announcement{.body = encode(PushHeader{.push = id})};
        const auto bytes = static_cast<std::uint64_t>(shard_.range().floats()) * sizeof(float);
        const std::span<std::byte> to = shard_.staging().accept(announcement, bytes);
        std::fill(to.begin(), to.end(), std::byte{0});
        check_invariant(shard_.staging().arrived(id), "a push is not discarded");
    }

    ServerShard shard_;
    FireOutput held_;
};

}  // namespace

std::vector<CostPoint> measure_updates(const Graph& graph, const OptimizerOptions& optimizer,
                                       std::int64_t repetitions) {
    std::vector<CostPoint> points;
    const std::int64_t most = graph.parameters().total() / FlatLayout::kAlignment;
    for (const std::int64_t pieces : {std::int64_t{1}, std::min(kPieces, most)}) {
        LoneServer server(graph, cut_shards(graph, static_cast<int>(pieces)).front(), optimizer);
        for (const int pushes : {1, 2, 4, 8}) {
            points.push_back({.units = server.bytes(pushes), .seconds = median_of(repetitions, [&] {
                                                                 return server.update(pushes);
                                                             })});
        }
    }
    return points;
}

}  // namespace cohort
