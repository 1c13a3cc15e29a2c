#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cohort/core/clock.hpp"
#include "comm/allreduce/back_ends.hpp"
#include "comm/allreduce/set_up.hpp"
#include "core/log.hpp"
#include "core/units.hpp"

namespace cohort {
namespace {

constexpr std::uint64_t kRounds = 7;
constexpr std::uint64_t kWarmUp = 2;

/// Least seconds of a round of one bucket.
double measure_exchange(const AllReduceSetting& setting, AllReduce& exchange) {
    const SteadyClock clock;
    std::vector<double> seconds;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        static_cast<void>(exchange.begin(round));
        const Clock::Seconds start = clock.now();
        exchange.finish({});
        if (!exchange.wait()) {
            setting.fail_broken();
        }
        if (round > kWarmUp) {
            seconds.push_back((clock.now() - start).count());
        }
    }
    return *std::ranges::min_element(seconds);  // least disturbed by other processes
}

/// All members' times, and the places of their devices.
std::vector<SetUpRecord> gather_times(const AllReduceSetting& setting, double seconds,
                                      const NcclPlace& place) {
    SetUpRecord own;
    own.seconds = seconds;
    own.set_place(place.place);
    own.set_error(place.error);
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

/// Why the members cannot take kNccl; empty when one of them is on no GPU; nothing: they can.
std::optional<std::string> against_nccl(const AllReduceSetting& setting,
                                        const std::vector<SetUpRecord>& records) {
    const auto name = [&](std::size_t i) {
        return setting.comm.network.map().describe(setting.members[i]);
    };
    bool on_gpus = true;
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (records[i].error[0] != '\0') {
            return name(i) + ": " + records[i].error.data();
        }
        on_gpus = on_gpus && records[i].place[0] != '\0';
    }
    for (std::size_t i = 0; on_gpus && i < records.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (share_place(setting, records, i, j)) {
                return name(j) + " and " + name(i) + " are on one GPU";
            }
        }
    }
    return on_gpus ? std::nullopt : std::optional<std::string>("");
}

std::unique_ptr<AllReduce> make_staged(const AllReduceSetting& setting,
                                       AllReduceAlgorithm algorithm) {
    if (setting.members.size() == 1) {
        return make_solo_all_reduce(setting.buckets.floats);
    }
    return algorithm == AllReduceAlgorithm::kMpi ? make_mpi_all_reduce(setting)
                                                 : make_shared_all_reduce(setting, algorithm);
}

}  // namespace

AllReduceAlgorithm choose_all_reduce(const AllReduceSetting& setting, const NcclPlace& place) {
    if (setting.members.size() == 1) {  // nothing to measure
        return place.place.empty() ? AllReduceAlgorithm::kRing : AllReduceAlgorithm::kNccl;
    }
    AllReduceSetting trial = setting;
    trial.buckets.floats = std::min(setting.buckets.floats, setting.buckets.size);
    const std::vector<SetUpRecord> of_ring = gather_times(
        trial, measure_exchange(trial, *make_shared_all_reduce(trial, AllReduceAlgorithm::kRing)),
        place);
    const std::optional<std::string> against = against_nccl(setting, of_ring);
    if (!against) {
        if (setting.self == 0) {
            log_info("All-reduce: nccl (every member has a GPU of its own)");
        }
        return AllReduceAlgorithm::kNccl;
    }
    const double ring = slowest(of_ring);
    const double mpi =
        slowest(gather_times(trial, measure_exchange(trial, *make_mpi_all_reduce(trial)), {}));
    const auto chosen = ring <= mpi ? AllReduceAlgorithm::kRing : AllReduceAlgorithm::kMpi;
    if (setting.self == 0) {
        log_info("All-reduce: {} (a bucket of {}: ring {:.0f} us, mpi {:.0f} us{})",
                 word_of(chosen),
                 format_bytes(static_cast<std::uint64_t>(trial.buckets.floats) * sizeof(float)),
                 ring * 1e6, mpi * 1e6, against->empty() ? "" : "; not nccl: " + *against);
    }
    return chosen;
}

std::unique_ptr<AllReduce> make_automatic_all_reduce(
    const AllReduceSetting& setting, const NcclPlace& place,
    const std::function<std::unique_ptr<AllReduce>()>& make_nccl) {
    std::atomic<bool>& failed = setting.comm.nccl_failed;
    const NcclPlace none{.place = "", .error = "it could not be set up before"};
    AllReduceAlgorithm algorithm = choose_all_reduce(setting, failed.load() ? none : place);
    if (algorithm == AllReduceAlgorithm::kNccl) {
        try {
            return make_nccl();
        } catch (const DeviceError& error) {
            failed.store(true);
            if (setting.self == 0) {
                log_warn("All-reduce: nccl cannot be set up, so auto does without it: {}",
                         error.what());
            }
        }
        algorithm = choose_all_reduce(setting, none);
    }
    return make_staged(setting, algorithm);
}

}  // namespace cohort
