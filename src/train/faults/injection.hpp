#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/clock.hpp"
#include "data/dataset/recording.hpp"

namespace cohort {

/// A fault put into one rank on purpose, for tests and demonstrations. Times are seconds since the
/// begin of training. Fields that are not set have no effect.
struct Injection {
    int rank = 0;                  ///< in the world
    double cpu = 1;                ///< the rank computes at this share of its speed, 0 < cpu <= 1
    double bytes_per_second = 0;   ///< it sends, and it receives, at most this much; 0: no limit
    double delay_s = 0;            ///< added to a mini-batch
    double probability = 1;        ///< ... to each with this probability
    double sample_s = 0;           ///< added to each sample of a mini-batch
    std::optional<double> kill_s;  ///< time at which the rank kills itself
    std::optional<double> freeze_from_s;  ///< begin of standing still
    double freeze_to_s = 0;               ///< end of standing still
    double from_s = 0;                    ///< begin of the faults other than kill and freeze
    std::optional<double> to_s;           ///< end of these faults; none: the end of the run
    /// Whether the faults other than kill and freeze are active at a time.
    [[nodiscard]] bool holds(double seconds) const noexcept {
        return seconds >= from_s && (!to_s || seconds < *to_s);
    }
    friend bool operator==(const Injection&, const Injection&) = default;
};

/// Parses `--inject`: entries separated by ';', each "rank=R" and at least one of "cpu=F",
/// "bw=20MB/s", "delay=50ms" (with "p=P"), "sample=2ms", "kill=12s", "freeze=5s..20s", with
/// "from=10s" and "to=40s" for the first four. Empty text: none. Errors: UsageError with the
/// grammar.
[[nodiscard]] std::vector<Injection> parse_injections(const std::string& text);

/// A rate above 0 with its unit, "20MB/s", in bytes per second; none for any other text.
[[nodiscard]] std::optional<double> parse_rate(std::string_view text);

/// A duration with its unit, "40ms" or "1.5s", in seconds; none for any other text.
[[nodiscard]] std::optional<double> parse_duration(const std::string& text);

/// Makes this rank compute late: at a share of its speed, and with delays. For the share, after
/// every group of layers it sleeps (1/share - 1) times what the layers took. The time of the layers
/// is the computing thread's own CPU time (on a GPU: wall time, as the thread only waits there):
/// time that other programs take from this rank is not stretched again, so the slowness is the same
/// on a busy machine and on an idle one. Debts below a millisecond are carried over, oversleeping
/// is subtracted later; so the rank resembles evenly slower hardware. The choice of delayed
/// mini-batches depends on the seed, the rank and the number of mini-batches before, never on time.
/// A recording delays each mini-batch by the row of its moment. Used by the computing thread only.
class Injector {
public:
    using Sleep = std::function<void(Clock::Seconds)>;

    /// @param all    injections of the job; those of `rank` count, the smallest share of the active
    /// ones
    /// @param seed   of the delays
    /// @param busy   clock of the thread's computing time; null: ThreadCpuClock
    /// @param wall   clock for `from_s` and `to_s` and for the real length of a sleep
    /// @param sleep  null: this thread sleeps
    Injector(const std::vector<Injection>& all, int rank, std::uint64_t seed,
             std::shared_ptr<const Clock> wall, std::shared_ptr<const Clock> busy = nullptr,
             Sleep sleep = {});

    /// Every mini-batch is also delayed by the recording's time for its moment.
    void replay(Replay recording, int worker);
    /// The next mini-batch has the recording's row of this moment, counted from 0; without a word
    /// the one after it has the next row.
    void replay_at(std::uint64_t moment) noexcept {
        if (replayed_) {
            replayed_->moment = moment;
        }
    }
    /// Asked now and then during long sleeps, on the thread that sleeps: true ends them, since the
    /// run stops.
    void set_stop(std::function<bool()> stop) { stop_ = std::move(stop); }
    /// Training begins now.
    void start();
    /// A mini-batch begins: earlier work of the thread is not stretched. Draws the delay of the
    /// mini-batch.
    void begin_step();
    /// The rank computes the next `count` samples of the mini-batch.
    void begin_samples(std::int64_t count);
    /// Between two groups of layers: sleeps as due.
    /// @param give_up  called during a delay, which ends when it returns true; none: never
    void pause(const std::function<bool()>& give_up = {});
    /// True when nothing is asked of this rank.
    [[nodiscard]] bool idle() const noexcept { return mine_.empty() && !replayed_; }

private:
    struct Replayed {
        Replay recording;
        int worker = 0;            ///< of the recording
        std::uint64_t moment = 0;  ///< the next one
    };

    [[nodiscard]] double share(Clock::Seconds now) const noexcept;
    [[nodiscard]] double draw_delay(double seconds);
    void wait_out_delay(const std::function<bool()>& give_up);
    void sleep_until(Clock::Seconds end, const std::function<bool()>& give_up) const;

    std::vector<Injection> mine_;
    std::uint64_t seed_;
    std::uint32_t steps_ = 0;  ///< begun
    std::optional<Replayed> replayed_;
    Clock::Seconds delay_{0};  ///< of this mini-batch, still to be slept
    std::shared_ptr<const Clock> wall_;
    std::shared_ptr<const Clock> busy_;
    Sleep sleep_;
    std::function<bool()> stop_;  ///< empty: never
    Clock::Seconds started_{0};
    Clock::Seconds mark_{0};  ///< time of the last pause on the busy clock
    Clock::Seconds debt_{0};  ///< sleep that is due; negative after oversleeping
};

}  // namespace cohort
