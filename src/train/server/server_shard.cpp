#include "train/server/server_shard.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"

namespace cohort {

ServerShard::ServerShard(const Graph& graph, const ShardRange& range,
                         const OptimizerOptions& optimizer, int threads,
                         std::unique_ptr<Device> device)
    : host_(make_cpu_device(threads)),
      stream_(host_->create_stream()),
      store_(graph, range, optimizer, *host_, *stream_, std::move(device)),
      runner_(store_, *host_, threads),
      snapshots_(*host_, range.floats()),
      staging_(*host_, range.floats()) {
}

void ServerShard::initialise(std::uint64_t seed, std::int64_t version) {
    store_.initialise(seed);
    version_ = version;
    current_.reset();
}

void ServerShard::restore(const ShardSnapshot& snapshot) {
    store_.restore(snapshot);
    version_ = snapshot.version;
    current_.reset();
}

void ServerShard::check_version(const FireOrder& order) const {
    const std::int64_t next = version_ + (order.pushes.empty() ? 0 : 1);
    if (order.version != next) {
        fail<PeerError>({.where = "server",
                         .what = "an order of another version",
                         .expected = std::to_string(next),
                         .got = std::to_string(order.version),
                         .hint = "this is a fault of the program"});
    }
}

FireOutput ServerShard::prepare(const FireOrder& order) {
    check_version(order);
    std::vector<double> lags;
    for (const ReleaseOrder& release : order.releases) {
        lags.push_back(store_.look_ahead_lag(release.lag));
    }
    if (order.snapshot.gather != 0) {
        lags.push_back(0);
    }
    std::sort(lags.begin(), lags.end());
    lags.erase(std::unique(lags.begin(), lags.end()), lags.end());
    FireOutput output;
    if (order.pushes.empty() && lags == std::vector<double>{0}) {
        if (std::shared_ptr<float> held = current_.lock()) {
            return {.copies = {{.lag = 0, .values = std::move(held)}}, .ready = true};
        }
    }
    for (const double lag : lags) {
        output.copies.push_back({.lag = lag, .values = snapshots_.take()});
    }
    return output;
}

/// What the workers of the order's pushes computed them on, for the delay compensation.
std::vector<std::shared_ptr<const float>> ServerShard::take_released(const FireOrder& order) {
    std::vector<std::shared_ptr<const float>> released(order.pushes.size());
    for (std::size_t i = 0; i < released.size() && order.delay_compensation > 0; ++i) {
        released[i] = released_.take(order.pushes[i].push.worker, order.pushes[i].version);
    }
    return released;
}

/// Orders without a delay compensation leave nothing to remember: the plan has changed.
void ServerShard::remember_releases(const FireOrder& order, const FireOutput& output) {
    if (order.delay_compensation > 0) {
        for (const ReleaseOrder& release : order.releases) {
            released_.put(release.worker, order.version,
                          output.find(store_.look_ahead_lag(release.lag)));
        }
    } else if (!order.pushes.empty()) {
        released_.clear();
    }
}

GradientAnswer ServerShard::fire(const FireOrder& order, const FireOutput& output,
                                 const std::function<void(std::int64_t floats)>& final) {
    check_version(order);
    remember_releases(order, output);
    if (output.ready) {
        final(range().floats());
        return {};
    }
    std::vector<std::shared_ptr<const float>> pushes;
    const std::vector<std::shared_ptr<const float>> released = take_released(order);
    std::vector<SumTerm> terms;
    double weights = 0;
    for (const WeightedPush& one : order.pushes) {
        terms.push_back({.values = pushes.emplace_back(staging_.take(one.push)).get(),
                         .coefficient = static_cast<float>(one.coefficient),
                         .released = released[terms.size()].get()});
        weights += one.coefficient;
    }
    const MeanGradient mean(std::move(terms), weights, order.delay_compensation);
    const GradientAnswer answer = runner_.run(order, mean, output, final);
    if (!order.pushes.empty()) {
        version_ = order.version;
        current_.reset();
    }
    if (!output.copies.empty() && output.copies.front().lag == 0) {
        current_ = output.copies.front().values;
    }
    return answer;
}

void ServerShard::skip_to(std::int64_t version) {
    check_invariant(version == version_ + 1, "versions follow each other");
    version_ = version;
    current_.reset();
}

void ServerShard::set_reference(const PushId& push) {
    reference_.set(staging_.take(push), range().parameters());
}

void ServerShard::compare(Staged& staged) const {
    const auto push = reference_.known() ? staging_.peek(staged.push) : nullptr;
    if (push != nullptr) {
        staged.reference_dot = reference_.dot_with(push.get());
        staged.reference_squares = reference_.squares();
    }
}

}  // namespace cohort
