#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

/// A timeline in the trace event format (JSON), which Perfetto and chrome://tracing read: spans and
/// instants on lanes, arrows between spans. Memory is bounded: of each kind the newest are kept.
/// Source: "Trace Event Format",
/// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
class Timeline {
public:
    static constexpr std::size_t kMost = 200'000;

    /// @param most  events of each kind that are kept
    explicit Timeline(std::size_t most = kMost) : most_(most) {}

    /// Lanes of one process are shown together.
    struct Lane {
        int process = 0;
        int row = 0;
    };
    /// Figures shown with a span or an instant.
    using Figures = std::vector<std::pair<const char*, double>>;
    /// Spans of a lane do not overlap. Times are in seconds.
    struct Span {
        Lane lane;
        std::string name;
        double begin_s = 0;
        double end_s = 0;
        Figures figures;
    };
    struct Instant {
        Lane lane;
        std::string name;
        double at_s = 0;
        std::string detail;
    };
    /// From a time within a span to a time within another one, not before it.
    struct Arrow {
        const char* name = "";
        Lane from;
        double from_s = 0;
        Lane to;
        double to_s = 0;
    };

    void name_process(int process, std::string name) { processes_[process] = std::move(name); }
    void name_lane(Lane lane, std::string name) {
        lanes_[{lane.process, lane.row}] = std::move(name);
    }
    void add(Span span) { keep(spans_, std::move(span)); }
    void add(Instant instant) { keep(instants_, std::move(instant)); }
    void add(const Arrow& arrow) { keep(arrows_, arrow); }

    [[nodiscard]] std::size_t spans() const noexcept { return spans_.size(); }
    /// Arrows whose spans are no longer kept are left out.
    [[nodiscard]] std::string json() const;

private:
    template <class Event>
    void keep(std::deque<Event>& kept, Event event) {
        if (kept.size() == most_) {
            kept.pop_front();
        }
        kept.push_back(std::move(event));
    }

    std::size_t most_;
    std::map<int, std::string> processes_;
    std::map<std::pair<int, int>, std::string> lanes_;
    std::deque<Span> spans_;
    std::deque<Instant> instants_;
    std::deque<Arrow> arrows_;
};

}  // namespace cohort
