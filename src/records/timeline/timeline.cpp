#include "records/timeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace cohort {
namespace {

std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Microseconds to the nanosecond.
double micros(double seconds) {
    return seconds * 1e6;
}

/// Takes the events one by one.
class EventList {
public:
    EventList() : text_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[") {}

    /// @param rest  of the event's fields, without braces
    void add(char phase, const Timeline::Lane& lane, const std::string& rest) {
        fmt::format_to(std::back_inserter(text_), "{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},{}}}",
                       any_ ? "," : "", phase, lane.process, lane.row, rest);
        any_ = true;
    }
    void name(const char* what, const Timeline::Lane& lane, const std::string& name) {
        add('M', lane, fmt::format("\"name\":\"{}\",\"args\":{{\"name\":{}}}", what, quoted(name)));
    }
    [[nodiscard]] std::string finished() && {
        text_ += "\n]}\n";
        return std::move(text_);
    }

private:
    std::string text_;
    bool any_ = false;
};

std::string json_of(const Timeline::Figures& figures) {
    std::string text;
    for (const auto& [name, value] : figures) {
        fmt::format_to(std::back_inserter(text), "{}\"{}\":{}", text.empty() ? "" : ",", name,
                       value);
    }
    return text;
}

}  // namespace

std::string Timeline::json() const {
    EventList events;
    for (const auto& [process, name] : processes_) {
        events.name("process_name", {process, 0}, name);
        events.add(
            'M', {process, 0},
            fmt::format("\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{}}}", process));
    }
    for (const auto& [lane, name] : lanes_) {
        events.name("thread_name", {lane.first, lane.second}, name);
        events.add('M', {lane.first, lane.second},
                   fmt::format("\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{}}}",
                               lane.second));
    }
    std::map<std::pair<int, int>, double> first_s;  // kept span of a lane
    for (const Span& span : spans_) {
        const auto [first, added] =
            first_s.try_emplace({span.lane.process, span.lane.row}, span.begin_s);
        first->second = std::min(first->second, span.begin_s);
        events.add('X', span.lane,
                   fmt::format("\"name\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{{}}}",
                               quoted(span.name), micros(span.begin_s),
                               micros(span.end_s) - micros(span.begin_s), json_of(span.figures)));
    }
    for (const Instant& instant : instants_) {
        events.add('i', instant.lane,
                   fmt::format("\"name\":{},\"ts\":{:.3f},\"s\":\"g\",\"args\":{{\"detail\":{}}}",
                               quoted(instant.name), micros(instant.at_s), quoted(instant.detail)));
    }
    const auto kept = [&first_s](const Lane& lane, double at_s) {
        const auto first = first_s.find({lane.process, lane.row});
        return first != first_s.end() && at_s >= first->second;
    };
    std::int64_t id = 0;
    for (const Arrow& arrow : arrows_) {
        if (kept(arrow.from, arrow.from_s) && kept(arrow.to, arrow.to_s)) {
            const std::string common =
                fmt::format("\"cat\":\"flow\",\"name\":\"{}\",\"id\":{}", arrow.name, ++id);
            events.add('s', arrow.from,
                       fmt::format("{},\"ts\":{:.3f}", common, micros(arrow.from_s)));
            events.add('f', arrow.to,
                       fmt::format("{},\"ts\":{:.3f},\"bp\":\"e\"", common, micros(arrow.to_s)));
        }
    }
    return std::move(events).finished();
}

}  // namespace cohort
