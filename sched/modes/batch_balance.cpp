#include "sched/modes/batch_balance.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "cohort/core/statistics.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kPieces = 8;  ///< pieces of a batch
constexpr std::int64_t kMost = 2;    ///< most batches in a lease
constexpr double kBehind = 1.2;      ///< a worker above this multiple of the median is helped

std::int64_t piece_of(std::int64_t batch) {
    return std::max<std::int64_t>(1, batch / kPieces);
}

std::size_t slowest_of(const std::vector<double>& times) {
    return static_cast<std::size_t>(std::ranges::max_element(times) - times.begin());
}

std::size_t fastest_of(const std::vector<double>& times) {
    return static_cast<std::size_t>(std::ranges::min_element(times) - times.begin());
}

/// The worker that would be done first with `more` additional samples, among those with room for
/// them.
std::size_t next_to_get(const std::vector<std::int64_t>& samples, const std::vector<double>& times,
                        std::int64_t more, std::int64_t most) {
    std::size_t best = samples.size();
    double least = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const double done = static_cast<double>(samples[i] + more) * times[i];
        if (samples[i] + more <= most && (best == samples.size() || done < least)) {
            best = i;
            least = done;
        }
    }
    return best;
}

}  // namespace

std::vector<std::int64_t> proportional_batches(const std::vector<double>& times,
                                               std::int64_t batch) {
    const std::int64_t piece = piece_of(batch);
    const std::int64_t most = std::max(kMost * batch, piece);
    std::int64_t left = static_cast<std::int64_t>(times.size()) * batch;
    double speeds = 0;
    for (const double time : times) {
        speeds += 1 / time;
    }
    // A piece less than the proportional share, the rest one by one: a step per worker or two.
    std::vector<std::int64_t> samples;
    samples.reserve(times.size());
    const auto total = static_cast<double>(left);
    for (const double time : times) {
        const auto pieces = static_cast<std::int64_t>(
            std::floor(total / (time * speeds) / static_cast<double>(piece)));
        samples.push_back(std::clamp((pieces - 1) * piece, piece, most / piece * piece));
    }
    left -= std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
    while (left >= piece) {
        const std::size_t next = next_to_get(samples, times, piece, most);
        samples[next] += piece;
        left -= piece;
    }
    samples[fastest_of(times)] += left;
    return samples;
}

/// Gives each piece to the worker that is done first with it. This is optimal, as no worker's time
/// falls with more work.
std::vector<std::int64_t> balanced_batches(const std::vector<CostLine>& costs, std::int64_t batch) {
    using Next = std::pair<double, std::size_t>;  // (time when done with one more piece, worker)
    constexpr std::int64_t kFinePieces = 32;      ///< of a batch
    const std::int64_t piece = std::max<std::int64_t>(1, batch / kFinePieces);
    const std::int64_t least = piece_of(batch);
    const std::int64_t most = kMost * batch;
    std::vector<std::int64_t> samples(costs.size(), least);
    std::int64_t left = static_cast<std::int64_t>(costs.size()) * (batch - least);
    std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
    const auto ask = [&](std::size_t i) {
        if (samples[i] + piece <= most) {
            next.emplace(costs[i].at(static_cast<double>(samples[i] + piece)), i);
        }
    };
    for (std::size_t i = 0; i < costs.size(); ++i) {
        ask(i);
    }
    std::size_t last = 0;
    for (; left >= piece && !next.empty(); left -= piece) {
        last = next.top().second;
        next.pop();
        samples[last] += piece;
        ask(last);
    }
    samples[last] += left;
    return samples;
}

std::vector<std::int64_t> helped_batches(const std::vector<double>& times, std::int64_t batch) {
    const std::int64_t piece = piece_of(batch);
    std::vector<std::int64_t> samples(times.size(), batch);
    for (std::size_t moves = 0; moves < times.size() * kPieces; ++moves) {
        const std::vector<double> now = lease_times(samples, times);
        const std::size_t slow = slowest_of(now);
        const std::size_t helper = next_to_get(samples, times, piece, kMost * batch);
        if (now[slow] <= kBehind * upper_median(now) || samples[slow] < 2 * piece ||
            helper == samples.size() || helper == slow) {
            break;
        }
        const double helped = static_cast<double>(samples[helper] + piece) * times[helper];
        if (helped >= now[slow]) {
            break;
        }
        samples[slow] -= piece;
        samples[helper] += piece;
    }
    return samples;
}

std::vector<double> lease_times(const std::vector<std::int64_t>& samples,
                                const std::vector<double>& times) {
    std::vector<double> products(times.size());
    std::ranges::transform(samples, times, products.begin(), std::multiplies<double>());
    return products;
}

}  // namespace cohort
