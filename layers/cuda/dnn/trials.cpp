#include "layers/cuda/dnn/trials.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/core/statistics.hpp"
#include "core/tensor/cuda/elements.cuh"

namespace cohort::cuda {
namespace {

/// Work for `warm_up` seconds, in turn.
void warm_up_with(const std::vector<std::size_t>& usable, double warm_up,
                  const CandidateSeconds& seconds_of) {
    constexpr double kLeast = 1e-6;  // a clock that stands still must not make it endless
    for (double done = 0; done < warm_up;) {
        for (const std::size_t i : usable) {
            done += std::max(seconds_of(i), kLeast);
        }
    }
}

template <class T>
std::vector<T> random_elements() {
    constexpr std::size_t kElements = 65537;  // no power of two, which channels may be
    Rng rng(1, RngPurpose::kPattern);
    std::vector<T> made;
    made.reserve(kElements);
    for (std::size_t i = 0; i < kElements; ++i) {
        made.push_back(from_float<T>(2 * rng.next_uniform() - 1));
    }
    return made;
}

}  // namespace

std::vector<double> seconds_in_turn(std::size_t candidates, double warm_up,
                                    const CandidateSeconds& seconds_of) {
    constexpr int kRounds = 5;
    std::vector<std::size_t> usable;
    for (std::size_t i = 0; i < candidates; ++i) {
        if (seconds_of(i) < kInfiniteSeconds) {
            usable.push_back(i);
        }
    }
    if (!usable.empty()) {
        warm_up_with(usable, warm_up, seconds_of);
    }
    std::vector<std::vector<double>> seconds(candidates, std::vector<double>{});
    for (int round = 0; round < kRounds; ++round) {
        for (const std::size_t i : usable) {
            seconds[i].push_back(seconds_of(i));
        }
        std::reverse(usable.begin(), usable.end());
    }
    std::vector<double> medians(candidates, kInfiniteSeconds);
    for (const std::size_t i : usable) {
        medians[i] = median(std::move(seconds[i]));
    }
    return medians;
}

int index_of_least(const std::vector<double>& seconds) noexcept {
    const auto least = std::min_element(seconds.begin(), seconds.end());
    return least == seconds.end() || !(*least < kInfiniteSeconds)
               ? -1
               : static_cast<int>(least - seconds.begin());
}

double warm_up_of(int gpu) {
    constexpr double kWarmUp = 0.1;  // clocks of a GPU rise within some 10 ms
    static std::mutex mutex;
    static std::set<int> warm;
    const std::lock_guard lock(mutex);
    return warm.insert(gpu).second ? kWarmUp : 0;
}

bool TrialBudget::allows(bool compiled, std::pair<int, std::int64_t> engine) const {
    const auto found = engines_.find(engine);
    return (compiled ? compiled_ < kMostCompiled : precompiled_ < kMost - kMostCompiled) &&
           (found == engines_.end() || found->second < kMostPerEngine);
}

void TrialBudget::take(bool compiled, std::pair<int, std::int64_t> engine) {
    ++(compiled ? compiled_ : precompiled_);
    ++engines_[engine];
}

double TimedWork::seconds() {
    if (runs_ == 0) {
        constexpr double kEnough = 1e-4;  // seconds: a hundred times what an event tells apart
        constexpr double kMostRuns = 10;
        queue_();  // libraries load what they need
        const double once = time(queue_);
        runs_ = static_cast<int>(std::clamp(kEnough / std::max(once, 1e-9), 1.0, kMostRuns));
        record();
        return once;
    }
    return recording_ == nullptr ? time(queue_) : time([this] { recording_->queue(); }) / runs_;
}

double seconds_or_infinite(TimedWork& work) {
    try {
        return work.seconds();
    } catch (const DeviceError&) {
        return kInfiniteSeconds;
    }
}

double TimedWork::time(const std::function<void()>& work) {
    const std::unique_ptr<Event> before = stream_.record();
    work();
    const std::unique_ptr<Event> after = stream_.record();
    after->wait();
    return after->seconds_since(*before);
}

void TimedWork::record() {
    if (!stream_.begin_recording()) {
        return;
    }
    try {
        for (int run = 0; run < runs_; ++run) {
            queue_();
        }
    } catch (...) {
        try {
            static_cast<void>(stream_.end_recording());
        } catch (const DeviceError&) {  // the first error counts
        }
        throw;
    }
    recording_ = stream_.end_recording();
}

void fill_random(Stream& stream, ElementType type, void* to, std::size_t bytes) {
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        static const std::vector<T> elements = random_elements<T>();
        auto* begin = static_cast<std::byte*>(to);
        std::size_t filled = std::min(bytes, elements.size() * sizeof(T));
        stream.copy(begin, elements.data(), filled);
        while (filled < bytes) {
            const std::size_t more = std::min(filled, bytes - filled);
            stream.copy(begin + filled, begin, more);
            filled += more;
        }
    });
}

}  // namespace cohort::cuda
