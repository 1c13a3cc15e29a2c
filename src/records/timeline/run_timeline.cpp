#include "records/timeline/run_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr int kCoordinator = 1;
constexpr int kWorkers = 2;
constexpr int kServers = 3;
constexpr Timeline::Lane kEvents{kCoordinator, 1};
constexpr Timeline::Lane kUpdateLane{kCoordinator, 2};
constexpr Timeline::Lane kEvaluations{kCoordinator, 3};
/// Arrows end at spans with a length.
constexpr double kShortest = 1e-6;

Timeline::Lane lane_of(int worker) {
    return {kWorkers, 2 * worker + 1};
}
Timeline::Lane pushes_of(int worker) {
    return {kWorkers, 2 * worker + 2};
}

}  // namespace

RunTimeline::RunTimeline(int workers, int servers, std::size_t most)
    : timeline_(most), workers_(static_cast<std::size_t>(workers)) {
    timeline_.name_process(kCoordinator, "coordinator");
    timeline_.name_lane(kEvents, "events");
    timeline_.name_lane(kUpdateLane, "updates");
    timeline_.name_lane(kEvaluations, "evaluations");
    timeline_.name_process(kWorkers, "workers");
    for (int worker = 0; worker < workers; ++worker) {
        timeline_.name_lane(lane_of(worker), fmt::format("worker {}", worker));
    }
    if (servers > 0) {
        timeline_.name_process(kServers, "servers");
    }
    for (int server = 0; server < servers; ++server) {
        timeline_.name_lane({kServers, server + 1}, fmt::format("server {}", server));
    }
}

void RunTimeline::activity(int worker, Activity what, double begin_s, double end_s,
                           Timeline::Figures figures) {
    Worker& one = workers_.at(static_cast<std::size_t>(worker));
    const bool push = what == Activity::kPush;
    std::optional<Place>& last = push ? one.push : one.last;
    begin_s = std::max(begin_s, last ? last->end_s : begin_s);
    if (end_s <= begin_s) {
        return;
    }
    if (push && !last) {
        timeline_.name_lane(pushes_of(worker), fmt::format("worker {} pushes", worker));
    }
    last = {begin_s, end_s};
    if (what == Activity::kCompute) {
        one.computed = last;
    }
    timeline_.add(Timeline::Span{.lane = push ? pushes_of(worker) : lane_of(worker),
                                 .name = std::string(word_of(what)),
                                 .begin_s = begin_s,
                                 .end_s = end_s,
                                 .figures = std::move(figures)});
}

void RunTimeline::pushed(const PushId& push, std::int64_t version) {
    Worker& one = workers_.at(static_cast<std::size_t>(push.worker));
    if (!one.computed) {
        return;
    }
    const Place& computed = *one.computed;
    const auto update = updates_.find(version);
    if (update != updates_.end() && update->second.begin_s <= computed.middle_s()) {
        timeline_.add(Timeline::Arrow{.name = "release",
                                      .from = kUpdateLane,
                                      .from_s = update->second.begin_s,
                                      .to = lane_of(push.worker),
                                      .to_s = computed.middle_s()});
    }
    const bool own_span = one.push && one.push->end_s >= computed.end_s;
    one.sent[push.sequence] = {.place = own_span ? *one.push : computed,
                               .lane = own_span ? pushes_of(push.worker) : lane_of(push.worker)};
    if (one.sent.size() > kPushes) {
        one.sent.erase(one.sent.begin());
    }
}

void RunTimeline::left(int worker) {
    Worker& one = workers_.at(static_cast<std::size_t>(worker));
    one.computed.reset();
    one.sent.clear();
}

const RunTimeline::Sent* RunTimeline::sent(const PushId& push) const {
    const Worker& worker = workers_.at(static_cast<std::size_t>(push.worker));
    const auto found = worker.sent.find(push.sequence);
    return found == worker.sent.end() ? nullptr : &found->second;
}

std::optional<double> RunTimeline::last_end(int worker) const {
    const std::optional<Place>& last = workers_.at(static_cast<std::size_t>(worker)).last;
    return last ? std::optional(last->end_s) : std::nullopt;
}

std::optional<double> RunTimeline::last_sent(std::span<const PushId> pushes) const {
    std::optional<double> last;
    for (const PushId& push : pushes) {
        if (const Sent* const found = sent(push)) {
            last = std::max(last.value_or(found->place.end_s), found->place.end_s);
        }
    }
    return last;
}

void RunTimeline::updated(std::int64_t version, double begin_s, double end_s,
                          std::span<const PushId> pushes, std::int64_t samples) {
    begin_s = std::max(begin_s, update_end_s_);
    end_s = std::max(end_s, begin_s + kShortest);
    update_end_s_ = end_s;
    updates_[version] = {begin_s, end_s};
    if (updates_.size() > kUpdates) {
        updates_.erase(updates_.begin());
    }
    timeline_.add(Timeline::Span{.lane = kUpdateLane,
                                 .name = "update",
                                 .begin_s = begin_s,
                                 .end_s = end_s,
                                 .figures = {{"version", static_cast<double>(version)},
                                             {"pushes", static_cast<double>(pushes.size())},
                                             {"samples", static_cast<double>(samples)}}});
    for (const PushId& push : pushes) {
        const Sent* const found = sent(push);
        if (found != nullptr && found->place.middle_s() <= end_s) {
            timeline_.add(Timeline::Arrow{.name = "push",
                                          .from = found->lane,
                                          .from_s = found->place.middle_s(),
                                          .to = kUpdateLane,
                                          .to_s = std::max(begin_s, found->place.middle_s())});
        }
    }
}

void RunTimeline::served(int server, double begin_s, double end_s) {
    if (end_s <= begin_s) {
        return;
    }
    timeline_.add(Timeline::Span{.lane = {kServers, server + 1},
                                 .name = "serve",
                                 .begin_s = begin_s,
                                 .end_s = end_s,
                                 .figures = {}});
}

void RunTimeline::evaluated(double begin_s, double end_s) {
    if (end_s <= begin_s) {
        return;
    }
    timeline_.add(Timeline::Span{.lane = kEvaluations,
                                 .name = "evaluation",
                                 .begin_s = begin_s,
                                 .end_s = end_s,
                                 .figures = {}});
}

void RunTimeline::happened(double at_s, std::string name, std::string detail) {
    timeline_.add(Timeline::Instant{
        .lane = kEvents, .name = std::move(name), .at_s = at_s, .detail = std::move(detail)});
}

}  // namespace cohort
