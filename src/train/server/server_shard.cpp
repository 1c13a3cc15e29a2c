#include "train/server/server_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/model/replica.hpp"
#include "optim/vector_math.hpp"

namespace cohort {
namespace {

std::size_t bytes_of(std::int64_t floats) {
    return static_cast<std::size_t>(floats) * sizeof(float);
}

void check_version(const FireOrder& order, std::int64_t version) {
    const std::int64_t next = version + (order.pushes.empty() ? 0 : 1);
    if (order.version != next) {
        fail<PeerError>({.where = "server",
                         .what = "an order of another version",
                         .expected = std::to_string(next),
                         .got = std::to_string(order.version),
                         .hint = "this is a fault of the program"});
    }
}

double scalar(const Optimizer& optimizer, std::string_view name) {
    for (const OptimizerScalar& one : optimizer.scalars()) {
        if (one.name == name) {
            return one.value;
        }
    }
    return 0;
}

}  // namespace

std::shared_ptr<const float> FireOutput::find(double lag) const {
    for (const Copy& copy : copies) {
        if (copy.lag == lag) {
            return copy.values;
        }
    }
    return nullptr;
}

ServerShard::ServerShard(const Graph& graph, const ShardRange& range,
                         const OptimizerOptions& optimizer, int threads,
                         std::unique_ptr<Device> device)
    : graph_(graph),
      range_(range),
      kind_(optimizer.kind),
      device_(make_cpu_device(threads)),
      stream_(device_->create_stream()),
      theta_(device_->allocate(std::max<std::size_t>(bytes_of(range.floats()), 64))),
      optimizer_(device ? nullptr
                        : make_optimizer(optimizer, graph.parameters(), range.begin, range.end,
                                         *device_, *stream_)),
      other_(device ? std::make_unique<ShardDevice>(std::move(device), graph.parameters(), range,
                                                    optimizer)
                    : nullptr),
      snapshots_(*device_, range.floats()),
      staging_(*device_, range.floats()) {
    prepare_scratch(threads);
}

ServerShard::~ServerShard() = default;

Optimizer& ServerShard::optimizer() noexcept {
    return other_ ? other_->optimizer() : *optimizer_;
}

/// The velocity, along which releases look ahead.
void ServerShard::follow_first_slot() {
    if (other_ && kind_ == OptimizerKind::kSgd) {
        velocity_.resize(static_cast<std::size_t>(range_.parameters()));
        other_->get_slot(0, velocity_);
    }
}

std::span<float> ServerShard::theta() noexcept {
    return {theta_.floats(), static_cast<std::size_t>(range_.floats())};
}
std::span<const float> ServerShard::parameters() const noexcept {
    return {theta_.floats(), static_cast<std::size_t>(range_.parameters())};
}
std::span<const float> ServerShard::state() const noexcept {
    return {theta_.floats() + range_.parameters(), static_cast<std::size_t>(range_.state)};
}

void ServerShard::initialise(std::uint64_t seed, std::int64_t version) {
    std::vector<float> all(static_cast<std::size_t>(graph_.parameters().total()));
    std::vector<float> state(static_cast<std::size_t>(graph_.state().total()));
    graph_.initialise(seed, all, state);
    std::copy(all.begin() + range_.begin, all.begin() + range_.end, theta().begin());
    std::copy_n(state.begin(), range_.state, theta().begin() + range_.parameters());
    if (other_) {
        other_->set_parameters(parameters());
    }
    follow_first_slot();
    version_ = version;
    current_.reset();
}

void ServerShard::restore(const ShardSnapshot& snapshot) {
    const auto fits = [](const std::vector<float>& values, std::int64_t floats) {
        return static_cast<std::int64_t>(values.size()) == floats;
    };
    const std::vector<OptimizerSlot> slots = optimizer().slots();
    bool same = snapshot.begin == range_.begin && snapshot.end == range_.end &&
                fits(snapshot.parameters, range_.parameters()) &&
                fits(snapshot.state, range_.state) &&
                slots.size() == snapshot.optimizer_slots.size();
    for (std::size_t i = 0; same && i < slots.size(); ++i) {
        const auto& [name, values] = snapshot.optimizer_slots[i];
        same = name == slots[i].name && fits(values, range_.parameters());
    }
    if (!same) {
        fail<FileError>(
            {.where = "checkpoint",
             .what = "it is of another model, range or optimizer",
             .expected = fmt::format("[{}, {}), state {}, {} optimizer buffers", range_.begin,
                                     range_.end, range_.state, slots.size()),
             .got = fmt::format("[{}, {}), state {}, {} optimizer buffers", snapshot.begin,
                                snapshot.end, snapshot.state.size(),
                                snapshot.optimizer_slots.size())});
    }
    std::copy(snapshot.parameters.begin(), snapshot.parameters.end(), theta().begin());
    std::copy(snapshot.state.begin(), snapshot.state.end(), theta().begin() + range_.parameters());
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const std::vector<float>& values = snapshot.optimizer_slots[i].second;
        if (other_) {
            other_->set_slot(i, values);
        } else {
            std::copy(values.begin(), values.end(), slots[i].values.begin());
        }
    }
    optimizer().restore_scalars(snapshot.optimizer_scalars);
    if (other_) {
        other_->set_parameters(parameters());
    }
    follow_first_slot();
    version_ = snapshot.version;
    current_.reset();
}

ShardSnapshot ServerShard::capture() {
    ShardSnapshot snapshot{.part = range_.part,
                           .begin = range_.begin,
                           .end = range_.end,
                           .version = version_,
                           .parameters = {parameters().begin(), parameters().end()},
                           .state = {state().begin(), state().end()}};
    const std::vector<OptimizerSlot> slots = optimizer().slots();
    for (std::size_t i = 0; i < slots.size(); ++i) {
        std::vector<float> values(slots[i].values.size());
        if (other_) {
            other_->get_slot(i, values);
        } else {
            std::copy(slots[i].values.begin(), slots[i].values.end(), values.begin());
        }
        snapshot.optimizer_slots.emplace_back(slots[i].name, std::move(values));
    }
    for (const OptimizerScalar& one : optimizer().scalars()) {
        snapshot.optimizer_scalars.emplace_back(one.name, one.value);
    }
    return snapshot;
}

double ServerShard::look_ahead_lag(double lag) const noexcept {
    return kind_ == OptimizerKind::kSgd && lag > 0 ? lag : 0;
}

FireOutput ServerShard::prepare(const FireOrder& order) {
    check_version(order, version_);
    std::vector<double> lags;
    for (const ReleaseOrder& release : order.releases) {
        lags.push_back(look_ahead_lag(release.lag));
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

ServerShard::Job ServerShard::make_job(const FireOrder& order, const FireOutput& output) {
    Job job{.order = order, .output = output};
    for (const WeightedPush& one : order.pushes) {
        job.pushes.push_back(staging_.take(one.push));
        job.released.push_back(
            order.delay_compensation > 0 ? released_.take(one.push.worker, one.version) : nullptr);
        job.terms.push_back({.values = job.pushes.back().get(),
                             .coefficient = static_cast<float>(one.coefficient),
                             .released = job.released.back().get()});
    }
    if (kind_ == OptimizerKind::kSgd) {
        job.velocity = other_ ? std::span<const float>(velocity_)
                              : std::span<const float>(optimizer_->slots().front().values);
        job.momentum = scalar(optimizer(), "momentum");
    }
    return job;
}

void ServerShard::begin_update(const FireOrder& order) {
    if (order.work == Work::kDelta) {
        optimizer().begin_delta(order.fraction, order.lr);
    } else {
        optimizer().begin_update(order.fraction, order.lr);
    }
}

/// Orders without a delay compensation leave nothing to remember: the plan has changed.
void ServerShard::remember_releases(const FireOrder& order, const FireOutput& output) {
    if (order.delay_compensation > 0) {
        for (const ReleaseOrder& release : order.releases) {
            released_.put(release.worker, order.version, output.find(look_ahead_lag(release.lag)));
        }
    } else if (!order.pushes.empty()) {
        released_.clear();
    }
}

void ServerShard::skip_to(std::int64_t version) {
    check_invariant(version == version_ + 1, "versions follow each other");
    version_ = version;
    current_.reset();
}

void ServerShard::set_reference(const PushId& push) {
    reference_ = staging_.take(push);
    reference_squares_ =
        sum_of_squares({reference_.get(), static_cast<std::size_t>(range_.parameters())});
}

void ServerShard::compare(Staged& staged) const {
    if (const auto push = reference_ == nullptr ? nullptr : staging_.peek(staged.push)) {
        const auto count = static_cast<std::size_t>(range_.parameters());
        staged.reference_dot = dot({reference_.get(), count}, {push.get(), count});
        staged.reference_squares = reference_squares_;
    }
}

void ServerShard::fire(const FireOrder& order, const FireOutput& output,
                       const std::function<void(std::int64_t floats)>& final) {
    check_version(order, version_);
    remember_releases(order, output);
    if (output.ready) {
        final(range_.floats());
        return;
    }
    const Job job = make_job(order, output);
    if (!job.terms.empty()) {
        begin_update(order);
        fold_statistics(job);
    }
    for (const FireOutput::Copy& copy : output.copies) {
        std::copy(state().begin(), state().end(), copy.values.get() + range_.parameters());
    }
    if (!job.terms.empty() || !output.copies.empty()) {
        run_steps(job, final);
    }
    if (!job.terms.empty()) {
        version_ = order.version;
        current_.reset();
    }
    if (!output.copies.empty() && output.copies.front().lag == 0) {
        current_ = output.copies.front().values;
    }
}

/// Mean of the pushes' batch statistics with the weights of their gradients, then the usual rule.
void ServerShard::fold_statistics(const Job& job) {
    if (range_.state == 0) {
        return;
    }
    double weights = 0;
    for (const WeightedPush& one : job.order.pushes) {
        weights += one.coefficient;
    }
    if (!(weights > 0)) {
        return;  // nobody's statistics count
    }
    std::vector<SumTerm> terms = job.terms;
    for (SumTerm& term : terms) {
        // Weights that do not sum to one shrink a step, never a variance.
        term.coefficient = static_cast<float>(
            std::abs(weights - 1) < 1e-9 ? term.coefficient : term.coefficient / weights);
    }
    std::vector<float> mean(static_cast<std::size_t>(range_.state));
    weighted_sum(terms, range_.parameters(), mean.data(), range_.state);
    fold_batch_statistics(theta().subspan(static_cast<std::size_t>(range_.parameters())), mean,
                          kBatchNormMomentum, job.order.fraction);
}

}  // namespace cohort
