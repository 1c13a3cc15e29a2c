#include "sim/job/job_records.hpp"

#include <utility>

namespace cohort {
namespace {

/// Reference batches that the lag histogram covers; more is in its last bin.
constexpr std::size_t kLagBatches = 16;

template <class Record>
void keep(std::vector<Record>& kept, std::size_t most, std::vector<Record> news) {
    for (Record& record : news) {
        if (kept.size() < most) {
            kept.push_back(std::move(record));
        }
    }
}

}  // namespace

JobRecords::JobRecords(std::size_t records)
    : most_records_(records), lag_histogram_(kLagBatches * SimulationResult::kLagBins + 1, 0) {
}

void JobRecords::timed(const IterationRecord& record) {
    if (records_.size() < most_records_) {
        records_.push_back(record);
    }
}

void JobRecords::settled(const PushOutcome& outcome) {
    if (!outcome.returned) {
        const double bin = outcome.lag * SimulationResult::kLagBins;
        const std::size_t last = lag_histogram_.size() - 1;
        ++lag_histogram_[bin < static_cast<double>(last) ? static_cast<std::size_t>(bin) : last];
    }
}

void JobRecords::collect(TrainingSession& session) {
    for (SwitchReport& change : session.modes().take_reports()) {
        switches_.push_back(std::move(change));
    }
    keep(decisions_, SimulationResult::kDecisions, session.modes().take_decisions());
    keep(windows_, SimulationResult::kWindows, session.modes().take_windows());
    if (session.load() == nullptr) {
        return;
    }
    for (const StragglerNews::Item& news : session.load()->straggler_news().take()) {
        const bool over = news.kind != StragglerNews::Kind::kBegun;
        if (over && stragglers_.size() < SimulationResult::kStragglers) {
            stragglers_.push_back(news.episode);
        }
    }
}

void JobRecords::report(SimulationResult& result) const {
    result.records = records_;
    result.switches = switches_;
    result.decisions = decisions_;
    result.windows = windows_;
    result.stragglers = stragglers_;
    result.lag_histogram = lag_histogram_;
}

}  // namespace cohort
