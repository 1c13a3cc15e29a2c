#include "train/server/server_fire.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "cohort/model/replica.hpp"
#include "optim/vector_math.hpp"
#include "tensor/cpu_team.hpp"

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

}  // namespace

std::shared_ptr<const float> FireOutput::find(double lag) const {
    for (const Copy& copy : copies) {
        if (copy.lag == lag) {
            return copy.values;
        }
    }
    return nullptr;
}

FireRunner::FireRunner(ShardStore& store, Device& host, int threads) : store_(store), host_(host) {
    for (int thread = 0; thread < threads; ++thread) {
        sums_.push_back(host.allocate(kBlock * sizeof(float)));
    }
}

GradientAnswer FireRunner::run(const FireOrder& order, const MeanGradient& mean,
                               const FireOutput& output,
                               const std::function<void(std::int64_t)>& final) {
    const Job job{order, mean, output, store_.velocity(), store_.optimizer().momentum()};
    if (!mean.empty()) {
        begin_update(job);
    }
    for (const FireOutput::Copy& copy : output.copies) {
        const std::span<const float> state = store_.state();
        std::copy(state.begin(), state.end(), copy.values.get() + store_.range().parameters());
    }
    return mean.empty() && output.copies.empty() ? GradientAnswer() : run_steps(job, final);
}

void FireRunner::begin_update(const Job& job) {
    const FireOrder& order = job.order;
    if (order.work == Work::kDelta) {
        store_.optimizer().begin_delta(order.fraction, order.lr);
    } else {
        store_.optimizer().begin_update(order.fraction, order.lr);
    }
    const ShardRange& range = store_.range();
    const std::vector<float> statistics = job.mean.statistics(range.parameters(), range.state);
    if (!statistics.empty()) {
        fold_batch_statistics(store_.state(), statistics, kBatchNormMomentum, order.fraction);
    }
    keeper_.prepare(order.question, range.parameters());
}

GradientAnswer FireRunner::run_steps(const Job& job,
                                     const std::function<void(std::int64_t)>& final) {
    const bool elsewhere = store_.other_device() != nullptr;
    const std::int64_t parameters = store_.range().parameters();
    const std::int64_t wide = elsewhere ? ShardDevice::kPiece : kFinalFloats;
    const std::int64_t steps = (parameters + wide - 1) / wide;
    const std::function<void(std::int64_t)> report = [&](std::int64_t done) {
        final(done == steps ? store_.range().floats() : done * wide);
    };
    Progress progress(steps, report);
    std::vector<GradientAnswer> answers(static_cast<std::size_t>(steps));
    std::atomic<std::int64_t> next{0};
    const auto work = [&](int member) {
        float* sum = sums_[static_cast<std::size_t>(member)].floats();
        for (std::int64_t step = next++; step < steps; step = next++) {
            const std::int64_t begin = step * wide;
            const std::int64_t end = std::min(parameters, begin + wide);
            answers[static_cast<std::size_t>(step)] =
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
    GradientAnswer answer;
    for (const GradientAnswer& part : answers) {
        answer.add(part);
    }
    return answer;
}

GradientAnswer FireRunner::run_step(const Job& job, std::int64_t begin, std::int64_t end,
                                    float* sum) {
    GradientAnswer answer;
    const std::span<float> theta = store_.parameters();
    for (std::int64_t at = begin; at < end; at += kBlock) {
        const std::int64_t n = std::min(kBlock, end - at);
        if (!job.mean.empty()) {
            const auto count = static_cast<std::size_t>(n);
            const std::span<const float> gradient(job.mean.block(theta.data(), at, n, sum), count);
            answer.add(keeper_.ask(job.order.question, at, gradient));
            store_.optimizer().apply(at, theta.subspan(static_cast<std::size_t>(at), count),
                                     gradient);
        }
        copy_block(job, at, n);
    }
    return answer;
}

/// The gradient is summed here and applied on the device.
GradientAnswer FireRunner::run_device_step(const Job& job, std::int64_t begin, std::int64_t end) {
    GradientAnswer answer;
    for (std::int64_t at = begin; at < end && !job.mean.empty(); at += kBlock) {
        const std::int64_t n = std::min(kBlock, end - at);
        float* sum = store_.other_device()->gradient().data() + (at - begin);
        const float* gradient = job.mean.block(store_.parameters().data(), at, n, sum);
        if (gradient != sum) {
            std::copy_n(gradient, n, sum);
        }
        answer.add(keeper_.ask(job.order.question, at, {sum, static_cast<std::size_t>(n)}));
    }
    if (!job.mean.empty()) {
        store_.apply_on_device(begin, end - begin);
    }
    copy_block(job, begin, end - begin);
    return answer;
}

void FireRunner::copy_block(const Job& job, std::int64_t at, std::int64_t n) const {
    const auto first = static_cast<std::size_t>(at);
    const auto count = static_cast<std::size_t>(n);
    const std::span<const float> theta = store_.parameters().subspan(first, count);
    for (const FireOutput::Copy& copy : job.output.copies) {
        const std::span<float> to(copy.values.get() + at, count);
        if (copy.lag == 0) {
            std::copy(theta.begin(), theta.end(), to.begin());
        } else {
            look_ahead(theta, job.velocity.subspan(first, count), job.order.lr, job.momentum,
                       copy.lag, to);
        }
    }
}

}  // namespace cohort
