#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

/// A timeline's JSON as its readers take it. Checks on the way what the trace event format asks
/// for: fields, times, spans of a lane one after the other, arrows with both ends within spans.
class ParsedTimeline {
public:
    struct Span {
        double begin_us = 0;
        double end_us = 0;
        std::string name;
        nlohmann::json args;
    };
    using Lane = std::pair<int, int>;

    explicit ParsedTimeline(const std::string& text) {
        const nlohmann::json trace = nlohmann::json::parse(text);
        for (const nlohmann::json& event : trace.at("traceEvents")) {
            const Lane lane{event.at("pid"), event.at("tid")};
            const std::string phase = event.at("ph");
            if (phase == "M") {
                if (event["name"] == "thread_name") {
                    lanes_[event["args"]["name"]] = lane;
                }
                continue;
            }
            const double at_us = event.at("ts");
            if (phase == "X") {
                EXPECT_GE(event.at("dur").get<double>(), 0) << event;
                spans_[lane].push_back(
                    {at_us, at_us + event["dur"].get<double>(), event["name"], event["args"]});
            } else if (phase == "s" || phase == "f") {
                arrows_[event.at("id")].push_back({event["name"], phase, lane, at_us});
            } else {
                EXPECT_EQ(phase, "i") << event;
                instants.push_back(event);
            }
        }
        check();
    }

    /// The spans of a lane in the order of time. @param name  of the lane
    [[nodiscard]] const std::vector<Span>& spans(const std::string& name) const {
        static const std::vector<Span> kNone;
        const auto lane = lanes_.find(name);
        const auto found = lane == lanes_.end() ? spans_.end() : spans_.find(lane->second);
        return found == spans_.end() ? kNone : found->second;
    }
    /// Seconds of the lane's spans of that name.
    [[nodiscard]] double seconds(const std::string& lane, const std::string& name) const {
        double sum = 0;
        for (const Span& span : spans(lane)) {
            sum += span.name == name ? (span.end_us - span.begin_us) * 1e-6 : 0;
        }
        return sum;
    }
    /// Number of arrows of that name.
    [[nodiscard]] std::size_t arrows(const std::string& name) const {
        return static_cast<std::size_t>(std::count_if(
            arrows_.begin(), arrows_.end(),
            [&name](const auto& arrow) { return arrow.second.front().name == name; }));
    }

    std::vector<nlohmann::json> instants;

private:
    struct End {
        std::string name;
        std::string phase;
        Lane lane;
        double at_us = 0;
    };

    void check() {
        constexpr double kRounding = 0.0021;  // of times in nanoseconds
        for (auto& [lane, spans] : spans_) {
            std::sort(spans.begin(), spans.end(),
                      [](const Span& a, const Span& b) { return a.begin_us < b.begin_us; });
            for (std::size_t i = 1; i < spans.size(); ++i) {
                EXPECT_GE(spans[i].begin_us, spans[i - 1].end_us - kRounding)
                    << "lane " << lane.first << "/" << lane.second << ", " << spans[i].name;
            }
        }
        for (const auto& [id, ends] : arrows_) {
            ASSERT_EQ(ends.size(), 2U) << "arrow " << id;
            EXPECT_EQ(ends[0].phase + ends[1].phase, "sf");
            EXPECT_LE(ends[0].at_us, ends[1].at_us + kRounding);
            for (const End& end : ends) {
                const auto& spans = spans_[end.lane];
                const auto after = std::upper_bound(
                    spans.begin(), spans.end(), end.at_us + kRounding,
                    [](double at_us, const Span& span) { return at_us < span.begin_us; });
                ASSERT_NE(after, spans.begin()) << "arrow " << id << " at " << end.at_us;
                EXPECT_LE(end.at_us, std::prev(after)->end_us + kRounding) << "arrow " << id;
            }
        }
    }

    std::map<std::string, Lane> lanes_;
    std::map<Lane, std::vector<Span>> spans_;
    std::map<int, std::vector<End>> arrows_;
};

}  // namespace cohort
