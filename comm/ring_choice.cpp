#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "cohort/core/clock.hpp"
#include "cohort/core/log.hpp"
#include "cohort/core/units.hpp"
#include "ring_engine.hpp"
#include "ring_set_up.hpp"

namespace cohort {
namespace {

constexpr std::uint64_t kRounds = 7;
constexpr std::uint64_t kWarmUp = 2;

/// Least seconds of a round of one bucket.
double measure(const RingSetting& setting, RingEngine& engine) {
    const SteadyClock clock;
    std::vector<double> seconds;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        static_cast<void>(engine.begin(round, round));
        const Clock::Seconds start = clock.now();
        engine.hand_in({});
        if (!engine.wait()) {
            setting.fail_broken();
        }
        if (round > kWarmUp) {
            seconds.push_back((clock.now() - start).count());
        }
    }
    return *std::min_element(seconds.begin(), seconds.end());  // without what others do meanwhile
}

/// All members' times, and where their devices are.
std::vector<SetUpRecord> gather_times(const RingSetting& setting, double seconds,
                                      const std::string& place) {
    SetUpRecord own;
    own.seconds = seconds;
    own.set_place(place);
    return gather_records(setting, own);
}

/// That of the slowest member, the same number on all.
double slowest(const std::vector<SetUpRecord>& records) {
    double most = 0;
    for (const SetUpRecord& record : records) {
        most = std::max(most, record.seconds);
    }
    return most;
}

bool places_of_their_own(const RingSetting& setting, const std::vector<SetUpRecord>& records) {
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (records[i].place[0] == '\0') {
            return false;
        }
        for (std::size_t j = 0; j < i; ++j) {
            if (share_place(setting, records, i, j)) {
                return false;
            }
        }
    }
    return true;
}

}  // namespace

AllReduceAlgorithm choose_all_reduce(const RingSetting& setting, const std::string& place) {
    RingSetting trial = setting;
    trial.buckets.floats = std::min(setting.buckets.floats, setting.buckets.size);
    const std::vector<SetUpRecord> of_ring = gather_times(
        trial, measure(trial, *make_shared_engine(trial, AllReduceAlgorithm::kRing)), place);
    if (places_of_their_own(setting, of_ring)) {
        if (setting.self == 0) {
            log_info("All-reduce: nccl (every member has a GPU of its own)");
        }
        return AllReduceAlgorithm::kNccl;
    }
    const double ring = slowest(of_ring);
    const double mpi = slowest(gather_times(trial, measure(trial, *make_mpi_engine(trial)), ""));
    const auto chosen = ring <= mpi ? AllReduceAlgorithm::kRing : AllReduceAlgorithm::kMpi;
    if (setting.self == 0) {
        log_info("All-reduce: {} (a bucket of {}: ring {:.0f} us, mpi {:.0f} us)", to_text(chosen),
                 format_bytes(static_cast<std::uint64_t>(trial.buckets.floats) * sizeof(float)),
                 ring * 1e6, mpi * 1e6);
    }
    return chosen;
}

namespace {

std::unique_ptr<RingEngine> make_staged(const RingSetting& setting, AllReduceAlgorithm algorithm) {
    if (setting.members.size() == 1) {
        return make_solo_engine(setting.buckets);
    }
    return algorithm == AllReduceAlgorithm::kMpi ? make_mpi_engine(setting)
                                                 : make_shared_engine(setting, algorithm);
}

/// A ring of one has nothing to measure.
AllReduceAlgorithm choose(const RingSetting& setting, const std::string& place) {
    if (setting.members.size() > 1) {
        return choose_all_reduce(setting, place);
    }
    return place.empty() ? AllReduceAlgorithm::kRing : AllReduceAlgorithm::kNccl;
}

}  // namespace

ChosenEngine make_automatic_engine(const RingSetting& setting, const std::string& place,
                                   const std::function<std::unique_ptr<RingEngine>()>& make_nccl) {
    std::atomic<bool>& failed = setting.thread.nccl_failed();
    AllReduceAlgorithm algorithm = choose(setting, failed.load() ? "" : place);
    if (algorithm == AllReduceAlgorithm::kNccl) {
        try {
            return {algorithm, make_nccl()};
        } catch (const DeviceError& error) {
            failed.store(true);
            if (setting.self == 0) {
                log_warn("All-reduce: nccl cannot be set up, so auto does without it: {}",
                         error.what());
            }
        }
        algorithm = choose(setting, "");
    }
    return {algorithm, make_staged(setting, algorithm)};
}

}  // namespace cohort
