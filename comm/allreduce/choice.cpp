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

/// The time of the slowest member, the same number on all.
double slowest(const AllReduceSetting& setting, AllReduce& exchange) {
    SetUpRecord own;
    own.seconds = measure_exchange(setting, exchange);
    double most = 0;
    for (const SetUpRecord& record : gather_records(setting, own)) {
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
    const MeasuredChoices::Key key{
        .bucket_floats = trial.buckets.floats,
        .several_nodes = std::ranges::adjacent_find(setting.nodes, std::not_equal_to<>()) !=
                         setting.nodes.end()};
    MeasuredChoices& choices = setting.comm.choices;
    SetUpRecord own = first_record(setting);
    own.set_place(place.place);
    own.set_error(place.error);
    own.known = choices.find(key, setting.members.size()).value_or(-1);
    const std::vector<SetUpRecord> records = gather_records(setting, own);
    check_agreement(setting, records);
    const std::optional<std::string> against = against_nccl(setting, records);
    if (!against) {
        if (setting.self == 0) {
            log_info("All-reduce: nccl (every member has a GPU of its own)");
        }
        return AllReduceAlgorithm::kNccl;
    }
    const std::string reason = against->empty() ? "" : "; not nccl: " + *against;
    const auto known =
        std::ranges::find_if(records, [](const SetUpRecord& one) { return one.known >= 0; });
    if (known != records.end()) {  // the first member's that knows one, the same on all
        choices.keep(key, setting.members.size(), static_cast<int>(known->known));
        const auto algorithm = static_cast<AllReduceAlgorithm>(known->known);
        if (setting.self == 0) {
            log_info("All-reduce: {} (as measured before{})", word_of(algorithm), reason);
        }
        return algorithm;
    }
    const double ring = slowest(trial, *make_shared_all_reduce(trial, AllReduceAlgorithm::kRing));
    const double mpi = slowest(trial, *make_mpi_all_reduce(trial));
    const auto chosen = ring <= mpi ? AllReduceAlgorithm::kRing : AllReduceAlgorithm::kMpi;
    choices.keep(key, setting.members.size(), static_cast<int>(chosen));
    if (setting.self == 0) {
        log_info("All-reduce: {} (a bucket of {}: ring {:.0f} us, mpi {:.0f} us{})",
                 word_of(chosen),
                 format_bytes(static_cast<std::uint64_t>(trial.buckets.floats) * sizeof(float)),
                 ring * 1e6, mpi * 1e6, reason);
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
