#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/core/words.hpp"
#include "cohort/sched/plan.hpp"
#include "records/timeline/timeline.hpp"

namespace cohort {

/// What a worker does for a while, in the order of LaneSpan::Kind. kDelay: nothing, because of a
/// pattern; kLost: work that is given up.
enum class Activity : std::uint8_t { kDelay, kInput, kCompute, kPush, kWait, kPull, kLost };
template <>
inline constexpr auto kWords<Activity> =
    std::to_array<std::string_view>({"delay", "input", "compute", "push", "wait", "pull", "lost"});

/// The timeline of a run, real or virtual: a lane for each worker and one for its pushes, which
/// leave beside its other work; a lane of updates, one of evaluations, one of what else happened;
/// one for each server. Arrows lead from a push to its update, and from an update to the
/// computation on its parameters. All times by one clock. Pure.
class RunTimeline {
public:
    /// @param servers  lanes of servers' work; 0: none  @param most  see Timeline
    RunTimeline(int workers, int servers, std::size_t most = Timeline::kMost);

    /// Spans of a lane come in the order of time; one that begins before the end of the last one is
    /// cut, one without length left out.
    void activity(int worker, Activity what, double begin_s, double end_s,
                  Timeline::Figures figures = {});
    /// The worker's last gradient is complete. @param version  of the parameters that it was
    /// computed on
    void pushed(const PushId& push, std::int64_t version);
    /// The worker was lost or came back: its next pushes are numbered from 1 again.
    void left(int worker);

    /// The parameters have become this version. @param begin_s  of the work on them
    void updated(std::int64_t version, double begin_s, double end_s, std::span<const PushId> pushes,
                 std::int64_t samples);
    /// A server works on its part of an update or of parameters to be sent.
    void served(int server, double begin_s, double end_s);
    void evaluated(double begin_s, double end_s);
    /// @param name  short @param detail  a sentence
    void happened(double at_s, std::string name, std::string detail);

    /// When the worker's last span ended, its pushes aside; none: it has none.
    [[nodiscard]] std::optional<double> last_end(int worker) const;
    /// The end of the last span that one of the pushes was sent in; none: not known.
    [[nodiscard]] std::optional<double> last_sent(std::span<const PushId> pushes) const;
    [[nodiscard]] const Timeline& timeline() const noexcept { return timeline_; }

private:
    /// A span as the end of an arrow.
    struct Place {
        double begin_s = 0;
        double end_s = 0;
        [[nodiscard]] double middle_s() const noexcept { return (begin_s + end_s) / 2; }
    };
    /// The span in which a push was sent; of a push that took no time, its computation.
    struct Sent {
        Place place;
        Timeline::Lane lane;
    };
    struct Worker {
        std::optional<Place> last;  ///< but for pushes
        std::optional<Place> computed;
        std::optional<Place> push;
        std::map<std::uint64_t, Sent> sent;  ///< by the newest sequences, kPushes at most
    };
    static constexpr std::size_t kPushes = 64;
    static constexpr std::size_t kUpdates = 4096;

    [[nodiscard]] const Sent* sent(const PushId& push) const;

    Timeline timeline_;
    std::vector<Worker> workers_;
    std::map<std::int64_t, Place> updates_;  ///< newest by version, kUpdates at most
    double update_end_s_ = 0;                ///< of the last one
};

}  // namespace cohort
