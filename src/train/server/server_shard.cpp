#include "train/server/server_shard.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/model/replica.hpp"
#include "core/bf16.hpp"
#include "core/profiler_range.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/optim/look_ahead.hpp"
#include "layers/optim/vector_math.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kBlock =
    std::int64_t{16} * 1024;  // floats: sum, parameters, velocity in the L2 cache
constexpr std::int64_t kFinalFloats =
    std::int64_t{64} * 1024;  // floats: what becomes final at once

/// Steps that end in any order, reported as a growing first part.
class Progress {
public:
    Progress(std::int64_t steps, const std::function<void(std::int64_t)>& report)
        : done_(static_cast<std::size_t>(steps)), report_(report) {}

    void done(std::int64_t step) {
        const std::lock_guard lock(mutex_);
        done_[static_cast<std::size_t>(step)] = true;
        const std::size_t before = first_;
        while (first_ < done_.size() && done_[first_]) {
            ++first_;
        }
        if (first_ > before) {
            report_(static_cast<std::int64_t>(first_));
        }
    }

private:
    std::mutex mutex_;
    std::vector<bool> done_;
    std::size_t first_ = 0;
    const std::function<void(std::int64_t)>& report_;
};

/// Where the rounded parameters of a copy begin; their state follows.
std::uint16_t* rounded(float* copy, const ShardRange& range) {
    return reinterpret_cast<std::uint16_t*>(copy + range.floats());
}

/// Floats of a copy with what follows it.
std::int64_t copy_floats(const ShardRange& range, Wire wire) {
    return range.floats() + (wire == Wire::kBf16 ? (range.parameters() + 1) / 2 + range.state : 0);
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

FireRunner::FireRunner(ShardStore& store, Device& host, int threads, Wire wire)
    : store_(store), host_(host), wire_(wire) {
    for (int thread = 0; thread < threads; ++thread) {
        sums_.push_back(host.allocate(kBlock * sizeof(float)));
    }
}

double FireRunner::run(const FireOrder& order, const MeanGradient& mean, const FireOutput& output,
                       const std::function<void(std::int64_t)>& final) {
    const Job job{order, mean, output};
    if (!mean.empty()) {
        begin_update(job);
    }
    for (const FireOutput::Copy& copy : output.copies) {
        const std::span<const float> state = store_.state();
        std::copy(state.begin(), state.end(), copy.values.get() + store_.range().parameters());
        if (wire_ == Wire::kBf16) {
            std::uint16_t* behind = rounded(copy.values.get(), store_.range());
            std::memcpy(behind + store_.range().parameters(), state.data(), state.size_bytes());
        }
    }
    return mean.empty() && output.copies.empty() ? 0 : run_steps(job, final);
}

void FireRunner::begin_update(const Job& job) {
    const FireOrder& order = job.order;
    if (order.update.work == Work::kDelta) {
        store_.optimizer().begin_delta(order.update.fraction, order.update.learning_rate);
    } else {
        store_.optimizer().begin_update(order.update.fraction, order.update.learning_rate);
    }
    const ShardRange& range = store_.range();
    const std::vector<float> statistics = job.mean.statistics(range.parameters(), range.state);
    if (!statistics.empty()) {
        fold_batch_statistics(store_.state(), statistics, kBatchNormMomentum,
                              order.update.fraction);
    }
}

double FireRunner::run_steps(const Job& job, const std::function<void(std::int64_t)>& final) {
    const ProfilerRange range("update");
    const bool elsewhere = store_.other_device() != nullptr;
    const std::int64_t parameters = store_.range().parameters();
    const std::int64_t wide = elsewhere ? ShardDevice::kPiece : kFinalFloats;
    const std::int64_t steps = (parameters + wide - 1) / wide;
    const std::function<void(std::int64_t)> report = [&](std::int64_t done) {
        final(done == steps ? store_.range().floats() : done * wide);
    };
    Progress progress(steps, report);
    std::vector<double> squares(static_cast<std::size_t>(steps));
    std::atomic<std::int64_t> next{0};
    const auto work = [&](int member) {
        float* sum = sums_[static_cast<std::size_t>(member)].floats();
        for (std::int64_t step = next++; step < steps; step = next++) {
            const std::int64_t begin = step * wide;
            const std::int64_t end = std::min(parameters, begin + wide);
            squares[static_cast<std::size_t>(step)] =
                elsewhere ? run_device_step(job, begin, end) : run_step(job, begin, end, sum);
            progress.done(step);
        }
    };
    ThreadTeam& team = cpu_team(host_);
    if (elsewhere || team.size() == 1 || steps < team.size()) {
        work(0);
    } else {
        team.run(work);
    }
    return std::accumulate(squares.begin(), squares.end(), 0.0);
}

double FireRunner::run_step(const Job& job, std::int64_t begin, std::int64_t end, float* sum) {
    double squares = 0;
    const std::span<float> theta = store_.parameters();
    for (std::int64_t at = begin; at < end; at += kBlock) {
        const std::int64_t n = std::min(kBlock, end - at);
        if (!job.mean.empty()) {
            const auto count = static_cast<std::size_t>(n);
            const std::span<const float> gradient(job.mean.block(theta.data(), at, n, sum), count);
            squares += job.order.update.ask_norm ? sum_of_squares(gradient) : 0;
            store_.optimizer().apply(at, theta.subspan(static_cast<std::size_t>(at), count),
                                     gradient);
        }
        copy_block(job, at, n);
    }
    return squares;
}

/// The gradient is summed here and applied on the device.
double FireRunner::run_device_step(const Job& job, std::int64_t begin, std::int64_t end) {
    double squares = 0;
    for (std::int64_t at = begin; at < end && !job.mean.empty(); at += kBlock) {
        const std::int64_t n = std::min(kBlock, end - at);
        float* sum = store_.other_device()->gradient().data() + (at - begin);
        const float* gradient = job.mean.block(store_.parameters().data(), at, n, sum);
        if (gradient != sum) {
            std::copy_n(gradient, n, sum);
        }
        squares +=
            job.order.update.ask_norm ? sum_of_squares({sum, static_cast<std::size_t>(n)}) : 0;
    }
    if (!job.mean.empty()) {
        store_.apply_on_device(begin, end - begin);
    }
    copy_block(job, begin, end - begin);
    return squares;
}

void FireRunner::copy_block(const Job& job, std::int64_t at, std::int64_t n) const {
    const auto first = static_cast<std::size_t>(at);
    const auto count = static_cast<std::size_t>(n);
    const std::span<const float> theta = store_.parameters().subspan(first, count);
    const auto lags = [](const FireOutput::Copy& copy) { return copy.lag != 0; };
    const LookAhead ahead =
        std::ranges::any_of(job.output.copies, lags) ? store_.look_ahead(at, n) : LookAhead();
    for (const FireOutput::Copy& copy : job.output.copies) {
        const std::span<float> to(copy.values.get() + at, count);
        if (copy.lag == 0) {
            std::copy(theta.begin(), theta.end(), to.begin());
        } else {
            look_ahead(theta, ahead, job.order.update.learning_rate, copy.lag, to);
        }
        if (wire_ == Wire::kBf16) {
            narrow_to_bf16(to, rounded(copy.values.get(), store_.range()) + at);
        }
    }
}

ServerShard::ServerShard(const Graph& graph, const ShardRange& range,
                         const OptimizerOptions& optimizer, int threads,
                         std::unique_ptr<Device> device, Wire wire)
    : host_(make_cpu_device(threads)),
      stream_(host_->create_stream()),
      wire_(wire),
      store_(graph, range, optimizer, *host_, *stream_, std::move(device)),
      runner_(store_, *host_, threads, wire),
      snapshots_(std::make_unique<BufferPool>(*host_, copy_floats(range, wire))),
      staging_(*host_, range.floats(), wire, false, ShardRows(find_row_table(graph), range)) {
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

void ServerShard::resize(const ShardRange& range, const ShardSnapshot& snapshot,
                         std::uint32_t layout) {
    store_.resize(range);
    restore(snapshot);
    snapshots_ = std::make_unique<BufferPool>(*host_, copy_floats(range, wire_));
    staging_.resize(range, layout);
    released_.clear();
    reference_ = {};
}

void ServerShard::check_version(const FireOrder& order) const {
    const std::int64_t next = version_ + (order.update.terms.empty() ? 0 : 1);
    if (order.update.version != next) {
        fail<PeerError>({.where = "server",
                         .what = "an order of another version",
                         .expected = std::to_string(next),
                         .got = std::to_string(order.update.version),
                         .hint = "this is a fault of the program"});
    }
}

FireOutput ServerShard::prepare(const FireOrder& order) {
    check_version(order);
    std::vector<double> lags;
    for (const ReleaseOrder& release : order.releases) {
        lags.push_back(release.lag);
    }
    for (const ParametersStop& stop : order.stops) {
        lags.push_back(stop.lag);
    }
    if (order.snapshot.gather != 0) {
        lags.push_back(0);
    }
    std::sort(lags.begin(), lags.end());
    lags.erase(std::unique(lags.begin(), lags.end()), lags.end());
    FireOutput output;
    if (order.update.terms.empty() && lags == std::vector<double>{0}) {
        if (std::shared_ptr<float> held = current_.lock()) {
            return {.copies = {{.lag = 0, .values = std::move(held)}}, .ready = true};
        }
    }
    for (const double lag : lags) {
        output.copies.push_back({.lag = lag, .values = snapshots_->take()});
    }
    return output;
}

/// What the workers of the order's pushes computed them on, for the delay compensation.
std::vector<std::shared_ptr<const float>> ServerShard::take_released(const FireOrder& order) {
    std::vector<std::shared_ptr<const float>> released(order.update.terms.size());
    for (std::size_t i = 0; i < released.size() && order.update.delay_compensation > 0; ++i) {
        released[i] =
            released_.take(order.update.terms[i].push.worker, order.update.terms[i].version);
        if (released[i] != nullptr && wire_ == Wire::kBf16) {
            const std::shared_ptr<float> as_received = snapshots_->take();
            const auto sent = as_sent(released[i].get(), wire_);
            widen_bf16(reinterpret_cast<const std::uint16_t*>(sent.data()),
                       {as_received.get(), static_cast<std::size_t>(range().parameters())});
            released[i] = as_received;
        }
    }
    return released;
}

std::span<const std::byte> ServerShard::as_sent(const float* copy, Wire wire) const noexcept {
    const PulledBytes form{.wire = wire, .parameters = range().parameters()};
    return {reinterpret_cast<const std::byte*>(wire == Wire::kF32 ? copy : copy + range().floats()),
            static_cast<std::size_t>(form.of(range().floats()))};
}

/// Orders without a delay compensation leave nothing to remember: the plan has changed.
void ServerShard::remember_releases(const FireOrder& order, const FireOutput& output) {
    if (order.update.delay_compensation > 0) {
        for (const ReleaseOrder& release : order.releases) {
            released_.put(release.worker, order.update.version, output.find(release.lag));
        }
    } else if (!order.update.terms.empty()) {
        released_.clear();
    }
}

double ServerShard::fire(const FireOrder& order, const FireOutput& output,
                         const std::function<void(std::int64_t floats)>& final) {
    check_version(order);
    remember_releases(order, output);
    if (output.ready) {
        final(range().floats());
        return 0;
    }
    std::vector<std::shared_ptr<const float>> pushes;
    const std::vector<std::shared_ptr<const float>> released = take_released(order);
    std::vector<SumTerm> terms;
    double weights = 0;
    for (const UpdateTerm& one : order.update.terms) {
        terms.push_back({.values = pushes.emplace_back(staging_.take(one.push)).get(),
                         .coefficient = static_cast<float>(one.coefficient),
                         .released = released[terms.size()].get()});
        weights += one.coefficient;
    }
    const MeanGradient mean(std::move(terms), weights, order.update.delay_compensation);
    const double squares = runner_.run(order, mean, output, final);
    if (!order.update.terms.empty()) {
        version_ = order.update.version;
        current_.reset();
    }
    if (!output.copies.empty() && output.copies.front().lag == 0) {
        current_ = output.copies.front().values;
    }
    return squares;
}

void ServerShard::skip_to(std::int64_t version) {
    check_invariant(version == version_ + 1, "versions follow each other");
    version_ = version;
    current_.reset();
}

void ServerShard::set_reference(const PushId& push) {
    reference_.set(staging_.take(push), range().parameters());
}

void ServerShard::compare(PushReceived& staged) const {
    const auto push = reference_.known() ? staging_.peek(staged.push) : nullptr;
    if (push != nullptr) {
        staged.reference_dot = reference_.dot_with(push.get());
        staged.reference_squares = reference_.squares();
    }
}

}  // namespace cohort
