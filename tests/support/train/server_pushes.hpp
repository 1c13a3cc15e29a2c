#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cohort/model/graph.hpp"
#include "support/optim/optimizer_run.hpp"
#include "train/protocol/protocol.hpp"
#include "train/server/server_shard.hpp"

namespace cohort::test {

/// A small network with parameters over several steps of a server's fire, and batch statistics.
inline Graph server_graph() {
    GraphBuilder net("served", Shape{2, 8, 8});
    Value x = net.relu(net.batch_norm(net.conv(net.input(), {.channels = 5, .padding = 1})));
    x = net.relu(net.linear(net.flatten(x), {.features = 611}));
    return net.finish(net.linear(x, {.features = 7}));
}

/// A worker's gradient of all parameters with its batch statistics.
struct TestPush {
    PushId id;
    double coefficient = 1;
    std::vector<float> gradient;  ///< [parameters]
    std::vector<float> batch;     ///< [state]

    /// What goes to the shard of `range`.
    [[nodiscard]] std::vector<float> part(const ShardRange& range) const {
        std::vector<float> floats(gradient.begin() + range.begin, gradient.begin() + range.end);
        floats.insert(floats.end(), batch.begin(), batch.begin() + range.state);
        return floats;
    }
};

/// @param key gives the numbers
inline TestPush make_push(const Graph& graph, PushId id, double coefficient, std::uint64_t key) {
    return {.id = id,
            .coefficient = coefficient,
            .gradient = random_floats(graph.parameters().total(), 2 * key),
            .batch = random_floats(graph.state().total(), 2 * key + 1)};
}

/// An update of pushes that releases to `workers`.
inline FireOrder fire_order(std::int64_t version, const std::vector<TestPush>& pushes,
                            std::vector<ReleaseOrder> releases = {}, double fraction = 1,
                            double lr = 0.05) {
    FireOrder order;
    order.update = {.version = version, .fraction = fraction, .learning_rate = lr};
    for (const TestPush& push : pushes) {
        order.update.terms.push_back({.push = push.id, .coefficient = push.coefficient});
    }
    order.releases = std::move(releases);
    return order;
}

/// Brings a push's part into a shard as a transfer would. @return arrived()'s answer
inline bool stage(ServerShard& shard, const TestPush& push) {
    const std::vector<float> floats = push.part(shard.range());
    const Message announcement{.body = encode(PushHeader{.push = push.id})};
    const std::span<const std::byte> bytes = std::as_bytes(std::span(floats));
    const std::span<std::byte> to = shard.staging().accept(announcement, bytes.size());
    std::copy_n(bytes.begin(), to.size(), to.begin());
    return shard.staging().arrived(push.id);
}

/// Carries an order out. @param squares  the gradient's are added, if the order asks for them
/// @return what it left
inline FireOutput fire(ServerShard& shard, const FireOrder& order, double* squares = nullptr) {
    FireOutput output = shard.prepare(order);
    const double told = shard.fire(order, output, [](std::int64_t) {});
    if (squares != nullptr) {
        *squares += told;
    }
    return output;
}

/// All shards of a job in one place: parameters as they would be with one.
class ShardGroup {
public:
    ShardGroup(const Graph& graph, int servers, const OptimizerOptions& optimizer,
               int threads = 1) {
        for (const ShardRange& range : cut_shards(graph, servers)) {
            shards_.push_back(std::make_unique<ServerShard>(graph, range, optimizer, threads));
            shards_.back()->initialise(7, 0);
        }
    }

    /// @return the squared norm of the mean gradient, if the order asks for it
    double update(const std::vector<TestPush>& pushes, const FireOrder& order) {
        double squares = 0;
        for (const auto& shard : shards_) {
            for (const TestPush& push : pushes) {
                if (!stage(*shard, push)) {
                    throw std::logic_error("a push was discarded");
                }
            }
            fire(*shard, order, &squares);
        }
        return squares;
    }

    [[nodiscard]] std::vector<float> parameters() const {
        std::vector<float> all;
        for (const auto& shard : shards_) {
            const std::span<const float> part = shard->store().parameters();
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }
    [[nodiscard]] std::vector<float> state() const {
        const std::span<const float> state = shards_.back()->store().state();
        return {state.begin(), state.end()};
    }
    [[nodiscard]] ServerShard& shard(std::size_t index) { return *shards_.at(index); }

private:
    std::vector<std::unique_ptr<ServerShard>> shards_;
};

}  // namespace cohort::test
