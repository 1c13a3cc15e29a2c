// Accumulate, apply, copy: one pass over the shard in blocks that stay in the cache, finished in
// steps that may be sent while the rest is still being computed. Memory traffic for n pushes, in
// shards: n + 2 (parameters) + 2 (velocity, sgd) + 1 per copy.
#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "optim/vector_math.hpp"
#include "tensor/cpu_team.hpp"
#include "train/server/server_shard.hpp"

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

void ServerShard::prepare_scratch(int threads) {
    for (int thread = 0; thread < threads; ++thread) {
        sums_.push_back(device_->allocate(kBlock * sizeof(float)));
    }
}

void ServerShard::run_steps(const Job& job, const std::function<void(std::int64_t)>& final) {
    const std::int64_t parameters = range_.parameters();
    const std::int64_t wide = other_ ? ShardDevice::kPiece : kFinalFloats;
    const std::int64_t steps = (parameters + wide - 1) / wide;
    const std::function<void(std::int64_t)> report = [&](std::int64_t done) {
        final(done == steps ? range_.floats() : done * wide);
    };
    Progress progress(steps, report);
    if (job.order.question.keep) {
        kept_.resize(static_cast<std::size_t>(parameters));
    }
    std::vector<GradientAnswer> answers(static_cast<std::size_t>(steps));
    std::atomic<std::int64_t> next{0};
    const auto work = [&](int member) {
        float* sum = sums_[static_cast<std::size_t>(member)].floats();
        for (std::int64_t step = next++; step < steps; step = next++) {
            const std::int64_t begin = step * wide;
            const std::int64_t end = std::min(parameters, begin + wide);
            answers[static_cast<std::size_t>(step)] =
                other_ ? run_device_step(job, begin, end) : run_step(job, begin, end, sum);
            progress.done(step);
        }
    };
    ThreadTeam& team = cpu_team(*device_);
    if (other_ || team.size() == 1 || steps < team.size()) {
        work(0);
    } else {
        team.run(work);
    }
    answer_ = {};
    for (const GradientAnswer& part : answers) {
        answer_.add(part);
    }
}

/// n floats of the mean gradient from `at` on; in `sum`, unless it is a push as it came.
const float* ServerShard::gradient_of(const Job& job, std::int64_t at, std::int64_t n,
                                      float* sum) const {
    if (job.order.delay_compensation > 0) {
        compensated_sum(job.terms, parameters().data(),
                        static_cast<float>(job.order.delay_compensation), at, sum, n);
        return sum;
    }
    if (job.terms.size() == 1 && job.terms.front().coefficient == 1) {
        return job.terms.front().values + at;
    }
    weighted_sum(job.terms, at, sum, n);
    return sum;
}

GradientAnswer ServerShard::run_step(const Job& job, std::int64_t begin, std::int64_t end,
                                     float* sum) {
    GradientAnswer answer;
    for (std::int64_t at = begin; at < end; at += kBlock) {
        const std::int64_t n = std::min(kBlock, end - at);
        if (!job.terms.empty()) {
            const auto count = static_cast<std::size_t>(n);
            const std::span<const float> gradient(gradient_of(job, at, n, sum), count);
            question(job, at, gradient, answer);
            optimizer_->apply(at, theta().subspan(static_cast<std::size_t>(at), count), gradient);
        }
        copy_block(job, at, n);
    }
    return answer;
}

/// Summed here, applied there; the host's copy of the parameters and the velocity follow.
GradientAnswer ServerShard::run_device_step(const Job& job, std::int64_t begin, std::int64_t end) {
    GradientAnswer answer;
    const auto count = static_cast<std::size_t>(end - begin);
    if (!job.terms.empty()) {
        for (std::int64_t at = begin; at < end; at += kBlock) {
            const std::int64_t n = std::min(kBlock, end - at);
            float* sum = other_->gradient().data() + (at - begin);
            const float* gradient = gradient_of(job, at, n, sum);
            if (gradient != sum) {
                std::copy_n(gradient, n, sum);
            }
            question(job, at, {sum, static_cast<std::size_t>(n)}, answer);
        }
        const auto first = static_cast<std::size_t>(begin);
        const std::span<float> velocity(velocity_);
        other_->apply(begin, theta().subspan(first, count),
                      velocity.empty() ? velocity : velocity.subspan(first, count));
    }
    copy_block(job, begin, end - begin);
    return answer;
}

/// While a piece of the mean gradient is in the cache.
void ServerShard::question(const Job& job, std::int64_t at, std::span<const float> gradient,
                           GradientAnswer& answer) {
    const GradientQuestion& asked = job.order.question;
    if (asked.norm) {
        answer.squares += sum_of_squares(gradient);
    }
    if (asked.compare && !kept_.empty()) {
        answer.product += dot(gradient, {kept_.data() + at, gradient.size()});
    }
    if (asked.keep) {
        std::copy(gradient.begin(), gradient.end(), kept_.begin() + at);
    }
}

void ServerShard::copy_block(const Job& job, std::int64_t at, std::int64_t n) const {
    const auto first = static_cast<std::size_t>(at);
    const auto count = static_cast<std::size_t>(n);
    for (const FireOutput::Copy& copy : job.output.copies) {
        const std::span<float> to(copy.values.get() + at, count);
        if (copy.lag == 0) {
            std::copy_n(parameters().begin() + at, n, to.begin());
        } else {
            look_ahead(parameters().subspan(first, count), job.velocity.subspan(first, count),
                       job.order.lr, job.momentum, copy.lag, to);
        }
    }
}

}  // namespace cohort
