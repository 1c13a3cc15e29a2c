#include "comm/allreduce/bucket_all_reduce.hpp"

#include <stdexcept>
#include <string>

#include "cohort/core/error.hpp"

namespace cohort {

void BucketAllReduce::expect(Phase wanted, std::string_view call) const {
    if (phase_ != wanted) {
        throw std::logic_error("AllReduce: " + std::string(call) + " out of order");
    }
}

/// The clock starts when the first bucket is ready.
void BucketAllReduce::start_clock() {
    if (!first_ready_) {
        first_ready_ = clock_.now();
    }
}

std::span<float> BucketAllReduce::begin(std::uint64_t round) {
    expect(Phase::kIdle, "begin");
    if (ordinal_ > 0 && round <= round_) {
        fail<UsageError>({.where = "AllReduce",
                          .what = "rounds must ascend",
                          .expected = "more than " + std::to_string(round_),
                          .got = std::to_string(round)});
    }
    phase_ = Phase::kFilling;
    round_ = round;
    ++ordinal_;
    arrived_ = 0;
    first_ready_.reset();
    ranges_.clear();
    return {start(ordinal_), static_cast<std::size_t>(buckets_.floats)};
}

void BucketAllReduce::ready(std::int64_t begin, std::int64_t end) {
    expect(Phase::kFilling, "ready");
    ranges_.add(begin, end);
    const std::int64_t buckets = buckets_.behind(ranges_.frontier());
    if (buckets > arrived_) {
        start_clock();
        arrived_ = buckets;
        arrive(buckets);
    }
}

void BucketAllReduce::finish(const SummaryBytes& summary) {
    expect(Phase::kFilling, "finish");
    phase_ = Phase::kSubmitted;
    start_clock();
    const Clock::Seconds start = clock_.now();
    submit(summary);
    submitting_s_ = (clock_.now() - start).count();
}

std::optional<std::vector<SummaryBytes>> BucketAllReduce::wait() {
    expect(Phase::kSubmitted, "wait");
    const Clock::Seconds start = clock_.now();
    std::optional<std::vector<SummaryBytes>> summaries = complete();
    const Clock::Seconds end = clock_.now();
    phase_ = summaries ? Phase::kIdle : Phase::kBroken;
    times_ = {.exchange_s = (end - *first_ready_).count(),
              .exposed_s = (end - start).count() + submitting_s_};
    return summaries;
}

}  // namespace cohort
