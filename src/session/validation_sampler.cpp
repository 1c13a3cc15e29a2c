#include "session/validation_sampler.hpp"

#include <algorithm>
#include <limits>

#include "cohort/core/rng.hpp"

namespace cohort {

ValidationSampler::ValidationSampler(std::uint64_t seed, std::int64_t samples, std::int64_t batch)
    : seed_(seed), samples_(samples), batch_(std::min(samples, batch)) {
}

void ValidationSampler::set_every(int every) noexcept {
    every_ = every;
    decisions_ = every;
}

std::optional<ValidationSampler::Dealt> ValidationSampler::deal(const std::vector<bool>& may,
                                                                std::uint32_t epoch) {
    if (!due() || std::find(may.begin(), may.end(), true) == may.end()) {
        return std::nullopt;
    }
    decisions_ = 0;
    do {
        turn_ = (turn_ + 1) % may.size();
    } while (!may[turn_]);
    ++dealt_;
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    const auto places =
        static_cast<std::uint32_t>(std::min<std::int64_t>(samples_ - batch_ + 1, kMost));
    Rng rng(seed_, RngPurpose::kValidation, dealt_);
    return Dealt{.worker = static_cast<int>(turn_),
                 .lease = kBit | dealt_,
                 .epoch = epoch,
                 .position = static_cast<std::int64_t>(rng.next_below(places)),
                 .count = batch_};
}

}  // namespace cohort
