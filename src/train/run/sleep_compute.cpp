#include "train/run/sleep_compute.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/faults/injection.hpp"

namespace cohort {
namespace {

/// An interrupt is seen this soon.
constexpr double kPieceSeconds = 5e-3;
/// Of the forward pass, and of the backward pass.
constexpr std::int64_t kLeastPieces = 4;
constexpr std::int64_t kMostPieces = 1000;
constexpr double kMostSeconds = 3600;
/// Shorter sleeps cost more in waking up than they say.
constexpr Clock::Seconds kShortestSleep{1e-4};

std::int64_t pieces_of(double seconds) {
    const double wanted = std::ceil(seconds / kPieceSeconds);
    return static_cast<std::int64_t>(
        std::clamp(wanted, static_cast<double>(kLeastPieces), static_cast<double>(kMostPieces)));
}

}  // namespace

ComputeChoice parse_compute(const std::string& text) {
    constexpr std::string_view kSleep = "sleep:";
    constexpr std::string_view kRecorded = "+recorded:";
    const std::size_t plus = std::min(text.find(kRecorded), text.size());
    const std::string kind = text.substr(0, plus);
    ComputeChoice choice;
    if (plus < text.size()) {
        choice.recording = text.substr(plus + kRecorded.size());
    }
    if (kind == "network") {
        return choice;
    }
    choice.sleep_s =
        kind.starts_with(kSleep) ? parse_duration(kind.substr(kSleep.size())) : std::nullopt;
    if (!choice.sleep_s || *choice.sleep_s <= 0 || *choice.sleep_s > kMostSeconds) {
        fail<UsageError>({.where = "--compute",
                          .what = "cannot be understood",
                          .expected =
                              "network, or sleep:T with a time above 0 like 40ms or 1.5s, at most "
                              "3600s; either with +recorded:NAME",
                          .got = "'" + text + "'"});
    }
    return choice;
}

SleepCompute::SleepCompute(Graph graph, Device& device, double seconds_per_sample,
                           std::shared_ptr<const Clock> clock, Sleep sleep)
    : TrainableModel(std::move(graph), device),
      seconds_per_sample_(seconds_per_sample),
      clock_(std::move(clock)),
      sleep_(std::move(sleep)) {
    if (!sleep_) {
        sleep_ = [](Clock::Seconds time) { std::this_thread::sleep_for(time); };
    }
}

std::optional<BatchResult> SleepCompute::train_step(const BatchView& batch, std::uint64_t /*seed*/,
                                                    StepObserver& observer) {
    stream().copy(batch_state().data(), state().data(), state().size_bytes());
    stream().synchronize();
    const double half = seconds_per_sample_ * static_cast<double>(batch.size) / 2;
    const std::int64_t pieces = pieces_of(half);
    const Clock::Seconds piece(half / static_cast<double>(pieces));
    for (std::int64_t i = 0; i < pieces; ++i) {
        rest(piece);
        if (observer.should_interrupt()) {
            return std::nullopt;
        }
    }
    const std::int64_t total = graph().parameters().total();
    constexpr std::int64_t kAlign = FlatLayout::kAlignment;
    std::int64_t end = total;
    for (std::int64_t i = pieces - 1; i >= 0; --i) {
        rest(piece);
        if (observer.should_interrupt()) {
            return std::nullopt;
        }
        const std::int64_t begin = total * i / pieces / kAlign * kAlign;
        if (begin < end) {
            observer.gradient_ready(begin, end);
        }
        end = begin;
    }
    return BatchResult{.samples = batch.size};
}

void SleepCompute::rest(Clock::Seconds piece) {
    owed_ += piece;
    if (owed_ >= kShortestSleep) {
        const Clock::Seconds before = clock_->now();
        sleep_(owed_);
        owed_ -= clock_->now() - before;
    }
}

}  // namespace cohort
