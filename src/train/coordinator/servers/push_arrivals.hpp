#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "cohort/core/clock.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// Puts a push's report together with the notes of the servers that hold its payload; one that lies
/// in memory of its node is complete with its report. Pure.
class PushArrivals {
public:
    struct Complete {
        PushReport report;     ///< its ticket with the products that the servers computed
        double sending_s = 0;  ///< from its report until the last server had all of it
        double before_s = 0;   ///< the same of the worker's push before; 0: not known
    };
    /// @param servers that hold a part of each push
    explicit PushArrivals(int servers) : servers_(servers) {}

    /// @return the push, when that was the last part of it
    [[nodiscard]] std::optional<Complete> reported(const PushReport& report, Clock::Seconds now);
    [[nodiscard]] std::optional<Complete> staged(const PushReceived& staged, Clock::Seconds now);
    /// Forgets what is incomplete of a worker's pushes, and returns which those were.
    [[nodiscard]] std::vector<PushId> drop(int worker);
    [[nodiscard]] std::size_t incomplete() const noexcept { return arriving_.size(); }

private:
    struct Arriving {
        std::optional<PushReport> report;
        Clock::Seconds reported_at{0};
        int staged = 0;
        double dot = 0;
        double squares = 0;
    };
    [[nodiscard]] std::optional<Complete> look_at(const PushId& push, Clock::Seconds now);

    struct Sent {
        PushId push;
        double seconds = 0;
    };

    int servers_;
    std::map<int, Sent> sent_;  ///< the newest complete push of every worker
    std::map<PushId, Arriving> arriving_;
};

}  // namespace cohort
