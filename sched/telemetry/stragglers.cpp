// Means over windows decide, see the header; a tree per window keeps the least mean of all workers.
#include "cohort/sched/stragglers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "cohort/core/statistics.hpp"
#include "sched/telemetry/straggler_windows.hpp"

namespace cohort {
namespace {

/// Shares of records, by DeviceLimit.
using Limits = std::array<double, kDeviceLimits>;

Limits limits_of(const ResourceUse& use) {
    Limits limits{};
    for (std::size_t i = 0; i < limits.size(); ++i) {
        limits[i] = (use.device_limits & bit_of(static_cast<DeviceLimit>(i))) != 0 ? 1 : 0;
    }
    return limits;
}

/// The parts of tau, seconds per batch, the processor share, and what held the GPU back.
struct Parts {
    double input_s = 0;
    double compute_s = 0;
    double transfer_s = 0;
    double cpu_share = 0;
    Limits limits{};

    void blend(const Parts& other, double weight) noexcept {
        input_s += weight * (other.input_s - input_s);
        compute_s += weight * (other.compute_s - compute_s);
        transfer_s += weight * (other.transfer_s - transfer_s);
        cpu_share += weight * (other.cpu_share - cpu_share);
        for (std::size_t i = 0; i < limits.size(); ++i) {
            limits[i] += weight * (other.limits[i] - limits[i]);
        }
    }
    [[nodiscard]] double own_s() const noexcept { return input_s + compute_s + transfer_s; }
};

struct Record {
    double own_s = 0;
    double arrived_s = 0;
    Parts parts;
};

constexpr std::size_t kKept = StragglerWindows::kLongest;

/// A worker's newest records.
struct Recent {
    std::array<Record, kKept> records;  ///< newest first
    std::array<double, kKept> logs{};   ///< logarithms of their times
    std::size_t count = 0;
    bool warm = false;  ///< has had a first record
    Parts usual;        ///< means of records without slowness, old enough to be sure
    double usual_count = 0;
    std::size_t until_usual = 0;  ///< records until one from after the last episode is old enough
    // While it is slow.
    Parts compared_with;
    Parts slow;  ///< mean
};

/// Of computing that takes longer.
StragglerCause device_cause(const Limits& slow, const Limits& usual) {
    StragglerCause cause = StragglerCause::kDevice;
    double most = 0;
    for (std::size_t i = 0; i < slow.size(); ++i) {
        const double growth = slow[i] - usual[i];
        if (slow[i] > 0.5 && growth > most) {
            most = growth;
            cause = static_cast<StragglerCause>(
                static_cast<std::size_t>(StragglerCause::kGpuThermal) + i);
        }
    }
    return cause;
}

/// The cause of a worker's slowness: the part that grew most. Computing on processors takes 1/share
/// as long with a share of them. A worker that grew by more than that was slowed by something else
/// and got less processor time as a result. The threshold is the square, between the two.
StragglerCause cause_of(const Parts& slow, const Parts& usual) {
    constexpr double kNotable = 0.05;   // of tau
    constexpr double kFullShare = 0.9;  // of the usual share
    const double input_s = slow.input_s - usual.input_s;
    const double compute_s = slow.compute_s - usual.compute_s;
    const double transfer_s = slow.transfer_s - usual.transfer_s;
    if (std::max({input_s, compute_s, transfer_s}) < kNotable * usual.own_s()) {
        return StragglerCause::kLag;
    }
    if (transfer_s >= std::max(input_s, compute_s)) {
        return StragglerCause::kBandwidth;
    }
    const double share = slow.cpu_share / std::max(usual.cpu_share, 1e-9);
    const double growth =
        (slow.input_s + slow.compute_s) / std::max(usual.input_s + usual.compute_s, 1e-9);
    if (share < kFullShare && share * share * growth < 1) {
        return StragglerCause::kCpu;
    }
    return input_s > compute_s ? StragglerCause::kInput : device_cause(slow.limits, usual.limits);
}

}  // namespace

struct StragglerDetector::Impl {
    Impl(int workers, std::int64_t samples, double bound)
        : batch(samples),
          lag_bound(bound),
          recent(static_cast<std::size_t>(workers)),
          transfers(recent.size(), -1),
          open(recent.size()) {}

    void take(std::size_t worker, const IterationRecord& record);
    void refresh_usual_transfer();
    void look_by_time(std::size_t worker);
    void look_by_lag(std::size_t worker, const IterationRecord& record);
    void set_active();
    void set_levels(std::size_t worker);
    void forget(std::size_t worker);
    [[nodiscard]] static bool known(std::size_t window, const Recent& of) {
        return of.count >= StragglerWindows::kLengths.at(window);
    }
    /// All other workers have as many records, so the worker can be compared with them.
    [[nodiscard]] bool usable(std::size_t window, const Recent& of) const {
        return known(window, of) && levels[window].size() == levels[0].size();
    }
    [[nodiscard]] double least(std::size_t window) const {
        const LeastOf& tree = levels[window];
        return tree.least() + windows.least_below(window, tree.size());
    }
    template <class Wanted>
    [[nodiscard]] bool any_window(const Recent& one, const Wanted& wanted) const;
    void begin(std::size_t worker);
    void count_slow(std::size_t worker, const Record& record, double ratio);
    void end(std::size_t worker);
    [[nodiscard]] Parts usual_of(std::size_t worker) const;
    [[nodiscard]] Parts median_of_others(std::size_t worker) const;

    std::int64_t batch;
    double lag_bound;
    StragglerWindows windows;
    std::vector<LeastOf> levels;    ///< by active window
    std::vector<Recent> recent;     ///< by worker
    std::vector<double> transfers;  ///< by worker: transfers of its newest record; below 0: none
    double usual_transfer_s = 0;    ///< median of `transfers`
    int until_refresh = 0;
    std::vector<std::optional<StragglerEpisode>> open;
};

void StragglerDetector::Impl::take(std::size_t worker, const IterationRecord& record) {
    Recent& one = recent[worker];
    const double scale = static_cast<double>(batch) / static_cast<double>(record.samples);
    const Record scaled{.own_s = record.own_s(),
                        .arrived_s = record.arrived_s,
                        .parts = {.input_s = record.input_s * scale,
                                  .compute_s = record.compute_s * scale,
                                  .transfer_s = record.transfer_s(),
                                  .cpu_share = record.use.cpu_share,
                                  .limits = limits_of(record.use)}};
    transfers[worker] = scaled.parts.transfer_s;
    refresh_usual_transfer();
    const double tau_s = scaled.parts.input_s + scaled.parts.compute_s +
                         std::max(scaled.parts.transfer_s, usual_transfer_s);
    const double log = std::log(std::max(tau_s, 1e-9));
    if (one.count > 0) {
        windows.add_step(log - one.logs[0]);
    }
    if (one.until_usual > 0) {
        --one.until_usual;
    } else if (one.count >= kKept / 2 && !open[worker]) {
        constexpr double kMemory = 32;
        one.usual_count = std::min(one.usual_count + 1, kMemory);
        one.usual.blend(one.records[kKept / 2 - 1].parts, 1 / one.usual_count);
    }
    std::move_backward(one.records.begin(), one.records.end() - 1, one.records.end());
    std::move_backward(one.logs.begin(), one.logs.end() - 1, one.logs.end());
    one.records[0] = scaled;
    one.logs[0] = log;
    one.count = std::min(one.count + 1, kKept);
}

/// Takes the upper median. With many workers not for every record.
void StragglerDetector::Impl::refresh_usual_transfer() {
    if (--until_refresh > 0) {
        return;
    }
    until_refresh = static_cast<int>(recent.size() / 8);
    std::vector<double> known;
    std::ranges::copy_if(transfers, std::back_inserter(known), [](double one) { return one >= 0; });
    usual_transfer_s = upper_median(std::move(known));
}

void StragglerDetector::Impl::set_levels(std::size_t worker) {
    const Recent& one = recent[worker];
    for (std::size_t window = 0; window < levels.size(); ++window) {
        levels[window].set(worker,
                           known(window, one) ? windows.level(window, one.logs) : LeastOf::kNone);
    }
}

/// Puts windows into use or out of use as times become less or more steady.
void StragglerDetector::Impl::set_active() {
    const std::size_t before = levels.size();
    levels.resize(windows.active(), LeastOf(recent.size()));
    for (std::size_t worker = 0; worker < recent.size() && levels.size() > before; ++worker) {
        set_levels(worker);
    }
}

/// Whether the worker's excess over the least mean is `wanted` in one of the windows.
template <class Wanted>
bool StragglerDetector::Impl::any_window(const Recent& one, const Wanted& wanted) const {
    for (std::size_t window = 0; window < levels.size() && usable(window, one); ++window) {
        if (wanted(window, windows.excess(window, one.logs, least(window)))) {
            return true;
        }
    }
    return false;
}

void StragglerDetector::Impl::look_by_time(std::size_t worker) {
    Recent& one = recent[worker];
    std::optional<StragglerEpisode>& episode = open[worker];
    if (!episode || episode->by_lag) {
        if (any_window(one, [this](auto i, double excess) { return excess > windows.begins(i); })) {
            begin(worker);
        }
    } else if (any_window(one,
                          [this](auto i, double excess) { return excess < windows.ends(i); })) {
        end(worker);
    } else if (const double above = one.logs[0] - least(0);
               above > std::log(StragglerWindows::kEnds)) {
        count_slow(worker, one.records[0], std::exp(above));
        episode->cause = cause_of(one.slow, one.compared_with);
    }
}

/// Begins an episode at the worker's first slow record. An open episode by lag continues as this
/// episode.
void StragglerDetector::Impl::begin(std::size_t worker) {
    Recent& one = recent[worker];
    const double fastest = least(0);
    const double slow = windows.begins(0) / 2;
    std::size_t first = 0;
    while (first + 1 < one.count && one.logs[first + 1] - fastest > slow) {
        ++first;
    }
    StragglerEpisode episode{.worker = static_cast<int>(worker)};
    const Record& oldest = one.records[first];
    episode.begin_s = oldest.arrived_s - oldest.own_s;
    if (open[worker]) {
        episode.begin_s = std::min(open[worker]->begin_s, episode.begin_s);
    }
    open[worker] = episode;
    one.compared_with = usual_of(worker);
    one.slow = {};
    for (std::size_t i = first + 1; i-- > 0;) {
        count_slow(worker, one.records[i], std::exp(one.logs[i] - fastest));
    }
    open[worker]->cause = cause_of(one.slow, one.compared_with);
}

void StragglerDetector::Impl::count_slow(std::size_t worker, const Record& record, double ratio) {
    StragglerEpisode& episode = *open[worker];
    ++episode.iterations;
    const double weight = 1 / static_cast<double>(episode.iterations);
    episode.slowdown += weight * (ratio - episode.slowdown);
    episode.end_s = record.arrived_s;
    recent[worker].slow.blend(record.parts, weight);
}

void StragglerDetector::Impl::look_by_lag(std::size_t worker, const IterationRecord& record) {
    std::optional<StragglerEpisode>& episode = open[worker];
    const bool over = lag_bound > 0 && record.lag > lag_bound;
    if (over && !episode) {
        episode = {.worker = static_cast<int>(worker),
                   .cause = StragglerCause::kLag,
                   .by_lag = true,
                   .begin_s = record.arrived_s - record.own_s(),
                   .end_s = record.arrived_s,
                   .iterations = 1};
    } else if (over && episode->by_lag) {
        episode->end_s = record.arrived_s;
        ++episode->iterations;
    } else if (episode && episode->by_lag) {
        end(worker);
    }
}

void StragglerDetector::Impl::end(std::size_t worker) {
    open[worker].reset();
    recent[worker].until_usual = kKept / 2;
}

void StragglerDetector::Impl::forget(std::size_t worker) {
    if (open[worker]) {
        end(worker);
    }
    recent[worker] = {};
    transfers[worker] = -1;
    set_levels(worker);
}

Parts StragglerDetector::Impl::usual_of(std::size_t worker) const {
    constexpr double kEnough = 8;
    const Recent& one = recent[worker];
    return one.usual_count >= kEnough ? one.usual : median_of_others(worker);
}

/// Medians over the workers that are not slow, if there are any; with many workers over a sample.
Parts StragglerDetector::Impl::median_of_others(std::size_t worker) const {
    constexpr std::size_t kMost = 64;
    std::array<std::vector<double>, 4 + kDeviceLimits> values;
    const std::size_t stride = recent.size() / kMost + 1;
    for (const bool healthy : {true, false}) {
        for (std::size_t other = worker % stride; other < recent.size(); other += stride) {
            if (other == worker || recent[other].count == 0 || (healthy && open[other])) {
                continue;
            }
            const Parts& parts = recent[other].records[0].parts;
            values[0].push_back(parts.input_s);
            values[1].push_back(parts.compute_s);
            values[2].push_back(parts.transfer_s);
            values[3].push_back(parts.cpu_share);
            for (std::size_t i = 0; i < kDeviceLimits; ++i) {
                values[4 + i].push_back(parts.limits[i]);
            }
        }
        if (!values[0].empty()) {
            break;
        }
    }
    if (values[0].empty()) {
        return {};
    }
    Parts medians{.input_s = upper_median(values[0]),
                  .compute_s = upper_median(values[1]),
                  .transfer_s = upper_median(values[2]),
                  .cpu_share = upper_median(values[3])};
    for (std::size_t i = 0; i < kDeviceLimits; ++i) {
        medians.limits[i] = upper_median(values[4 + i]);
    }
    return medians;
}

StragglerDetector::StragglerDetector(int workers, std::int64_t batch, double lag_bound)
    : impl_(std::make_unique<Impl>(workers, batch, lag_bound)) {
}

StragglerDetector::~StragglerDetector() = default;
StragglerDetector::StragglerDetector(StragglerDetector&&) noexcept = default;
StragglerDetector& StragglerDetector::operator=(StragglerDetector&&) noexcept = default;

void StragglerDetector::add(const IterationRecord& record) {
    const auto worker = static_cast<std::size_t>(record.worker);
    Recent& one = impl_->recent.at(worker);
    if (!std::exchange(one.warm, true)) {
        impl_->transfers[worker] =
            record.transfer_s();  // so that the next record is compared with all workers
        return;
    }
    impl_->take(worker, record);
    impl_->set_active();
    impl_->set_levels(worker);
    impl_->look_by_time(worker);
    impl_->look_by_lag(worker, record);
}

void StragglerDetector::lost(int worker) {
    impl_->forget(static_cast<std::size_t>(worker));
}

const std::vector<std::optional<StragglerEpisode>>& StragglerDetector::open() const noexcept {
    return impl_->open;
}

double StragglerDetector::noise() const noexcept {
    return impl_->windows.sigma();
}

}  // namespace cohort
