#include "train/coordinator/run_requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_records.hpp"

namespace cohort {

RunRequests::RunRequests(const RankMap& map, TrainingSession& session,
                         ModeConsultation& consultation, const RunReporter& reporter,
                         std::function<void()> stop,
                         std::function<std::string(const std::string& words)> servers)
    : map_(map),
      session_(session),
      consultation_(consultation),
      reporter_(reporter),
      stop_(std::move(stop)),
      servers_(std::move(servers)) {
}

void RunRequests::open() {
    try {
        server_.emplace(RunFolder(reporter_.options().out).control,
                        [this](const std::string& words) { return answer(words); });
    } catch (const FileError& error) {
        log_warn("no requests (cohort ctl) are taken: {}", error.what());
    }
}

std::string RunRequests::answer(const std::string& words) {
    constexpr std::string_view kMode = "mode ";
    if (words == "status") {
        return status();
    }
    if (words == "status json") {
        return status_json() + "\n";
    }
    if (words == "stop") {
        log_info("request: stop");
        stop_();
        return "the run ends after a checkpoint, with status 75\n";
    }
    constexpr std::string_view kServers = "servers";
    if (words == kServers || words.starts_with(std::string(kServers) + " ")) {
        if (map_.servers == 0) {
            fail<UsageError>({.where = "request", .what = "a job with a ring has no servers"});
        }
        log_info("request: {}", words);
        return servers_(words.substr(std::min(words.size(), kServers.size() + 1)));
    }
    if (!words.starts_with(kMode)) {
        fail<UsageError>({.where = "request",
                          .what = "it is unknown",
                          .expected = "mode MODE, status, servers or stop",
                          .got = "'" + words + "'"});
    }
    if (session_.stopping()) {
        fail<UsageError>({.where = "request", .what = "training is over"});
    }
    const std::string mode = words.substr(kMode.size());
    consultation_.request(mode);
    log_info("request: mode {}", mode);
    return fmt::format("{} follows {} at the next fence\n", mode, session_.modes().mode());
}

std::string RunRequests::status() const {
    const ClusterReport now = reporter_.cluster();
    const TrainProgress& progress = reporter_.progress();
    std::string text = fmt::format(
        "mode {}\n{} of {} samples applied in {} updates, {:.1f} s of training\n"
        "{} of {} live, {} waiting for others\n",
        now.mode, progress.samples_applied, reporter_.budget_samples(), progress.updates,
        progress.train_seconds, now.live(), counted(now.workers.size(), "worker"),
        counted(now.pending, "push", "pushes"));
    for (std::size_t worker = 0; worker < now.workers.size(); ++worker) {
        const WorkerReport& one = now.workers[worker];
        fmt::format_to(std::back_inserter(text),
                       "worker {} ({}): {}, lag {:.2f}, own time {:.3f} s, {} samples applied\n",
                       worker, map_.describe(map_.rank_of_worker(static_cast<int>(worker))),
                       one.live ? "live" : "lost", one.lag, one.own_s, one.samples);
        if (worker < now.loads.size() && one.live) {
            text += "  " + describe(now.loads[worker]) + "\n";
        }
    }
    return text;
}

std::string RunRequests::status_json() const {
    const ClusterReport now = reporter_.cluster();
    const TrainProgress& progress = reporter_.progress();
    Json workers = Json::array();
    for (std::size_t worker = 0; worker < now.workers.size(); ++worker) {
        const WorkerReport& one = now.workers[worker];
        const int rank = map_.rank_of_worker(static_cast<int>(worker));
        const bool measured = worker < now.loads.size() && now.loads[worker].own_s > 0;
        const WorkerLoad* const load = measured ? &now.loads[worker] : nullptr;
        const auto of_load = [load](auto member) {
            return load != nullptr ? Json(load->*member) : Json(nullptr);
        };
        workers.push_back(
            {{"worker", worker},
             {"rank", rank},
             {"host", map_.ranks[static_cast<std::size_t>(rank)].host},
             {"live", one.live},
             {"samples", one.samples},
             {"lag", or_null(one.live, one.lag)},
             {"own_s", or_null(one.own_s > 0, one.own_s)},
             {"tau_s", of_load(&WorkerLoad::own_s)},
             {"wait_s", of_load(&WorkerLoad::wait_s)},
             {"batch", of_load(&WorkerLoad::batch)},
             {"slow", measured && load->slow ? Json(word_of(load->slow->cause)) : Json(nullptr)}});
    }
    return Json{{"mode", now.mode},
                {"samples_applied", progress.samples_applied},
                {"budget_samples", reporter_.budget_samples()},
                {"updates", progress.updates},
                {"train_s", progress.train_seconds},
                {"live", now.live()},
                {"pending", now.pending},
                {"workers", workers}}
        .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cohort
