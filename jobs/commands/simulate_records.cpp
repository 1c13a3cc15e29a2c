#include "jobs/commands/simulate_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/target.hpp"
#include "cohort/train/events.hpp"
#include "core/scores.hpp"
#include "core/units.hpp"
#include "jobs/cli/facts.hpp"
#include "records/run/decision_json.hpp"
#include "train/run/run_records.hpp"

namespace cohort {
namespace {

double ratio(double value, double by) {
    return by > 0 ? value / by : 0;
}

Json workers_json(const SimulationResult& result) {
    Json workers = Json::array();
    for (std::size_t i = 0; i < result.workers.size(); ++i) {
        Json worker = worker_json(result.workers[i], result.virtual_s);
        worker.update({{"busy_s", result.worker_busy_s.at(i)},
                       {"wait_s", result.worker_wait_s.at(i)},
                       {"cpu_s", result.worker_cpu_s.at(i)},
                       {"bytes", result.worker_bytes.at(i)}});
        workers.push_back(std::move(worker));
    }
    return workers;
}

Json servers_json(const SimulationResult& result) {
    Json servers = Json::array();
    for (const ServerUse& server : result.servers) {
        servers.push_back({{"node", server.node},
                           {"cpu_core_s", server.cpu_core_s},
                           {"rx_bytes", server.rx_bytes},
                           {"tx_bytes", server.tx_bytes},
                           {"busy_s", server.busy_s}});
        if (!result.resizes.empty()) {
            servers.back()["share"] = server.share;
        }
    }
    return servers;
}

Json resizes_json(const SimulationResult& result) {
    Json resizes = Json::array();
    for (const ShardResize& one : result.resizes) {
        resizes.push_back({{"asked_s", one.asked_s},
                           {"begun_s", one.begun_s},
                           {"ended_s", one.ended_s},
                           {"bytes", one.bytes},
                           {"why", one.why}});
    }
    return resizes;
}

std::string resizes_fact(const SimulationResult& result) {
    double stood_s = 0;
    double bytes = 0;
    for (const ShardResize& one : result.resizes) {
        stood_s = std::max(stood_s, one.ended_s - one.begun_s);
        bytes += one.bytes;
    }
    return fmt::format(
        "shards of servers: resized {}, {} moved, at most {:.3f} s each; "
        "the first: {}",
        counted(result.resizes.size(), "time"), format_bytes(static_cast<std::uint64_t>(bytes)),
        stood_s, result.resizes.front().why);
}

Json decisions_json(const SimulationResult& result) {
    Json decisions = Json::array();
    for (const DecisionRecord& decision : result.decisions) {
        decisions.push_back(Json::parse(decision_json(decision)));
    }
    return decisions;
}

/// How many there were, and how well their paces were predicted.
std::string decisions_fact(const SimulationResult& result) {
    std::vector<double> errors;
    for (const DecisionRecord& decision : result.decisions) {
        const Candidate* const chosen = chosen_candidate(decision);
        if (chosen != nullptr && decision.measured_samples_s > 0) {
            errors.push_back(std::abs(chosen->samples_s / decision.measured_samples_s - 1));
        }
    }
    std::string text = fmt::format("{}: {}", result.decisions.front().chooser,
                                   counted(result.decisions.size(), "decision"));
    if (!errors.empty()) {
        const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
        std::nth_element(errors.begin(), middle, errors.end());
        text += fmt::format(", their paces predicted to {:.1f} % (median)", 100 * *middle);
    }
    return text;
}

std::int64_t regroupings(const SimulationResult& result) {
    return std::count_if(result.switches.begin(), result.switches.end(),
                         [](const SwitchReport& change) { return change.same_mode(); });
}

/// The mode that the run ended with.
std::string last_mode(const SimulationResult& result, const SimulateOptions& options) {
    if (!result.switches.empty()) {
        return result.switches.back().to;
    }
    return options.modes.front().mode.text;
}

/// Of the cores' time: what was spent on learning.
double engine_share(const SimulationResult& result) {
    return ratio(result.engine_core_s, result.wall_s * static_cast<double>(result.threads));
}

std::int64_t returned_samples(const EngineAccounts& accounts) {
    return std::accumulate(accounts.returned.begin(), accounts.returned.end(), std::int64_t{0});
}

void add_accounts(Json& json, const SimulationResult& result) {
    const EngineAccounts& accounts = result.accounts;
    json["samples_applied"] = result.samples_applied;
    json["samples_returned"] = returned_samples(accounts);
    for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
        json[std::string("returned_") + kReturnReasonNames.at(reason)] =
            accounts.returned.at(reason);
    }
    json["samples_leased"] = accounts.leased;
    json["samples_outstanding"] = accounts.outstanding;
    json["updates"] = result.updates;
    json.update(pushes_json(ClusterReport{.mode = {}, .workers = result.workers}.total()));
}

void add_times(Json& json, const SimulationResult& result) {
    json["tta_virtual_s"] = or_null(result.tta_virtual_s);
    json["samples_to_target"] = or_null(result.samples_to_target);
    json["virtual_s"] = result.virtual_s;
    json["samples_per_s"] = ratio(static_cast<double>(result.samples_applied), result.virtual_s);
    json["ideal_samples_s"] = or_null(result.ideal_samples_s);
    json["healthy_iteration_s"] = result.healthy_iteration_s;
    json["events"] = result.events;
    json["events_per_s"] = ratio(static_cast<double>(result.events), result.wall_s);
    json["wall_s"] = result.wall_s;
    json["threads"] = result.threads;
    json["engine_core_s"] = result.engine_core_s;
    json["engine_share"] = engine_share(result);
    json["samples_computed"] = result.samples_computed;
    json["buffer_bytes"] = result.buffer_bytes;
    json["peak_bytes"] = result.peak_bytes;
    json["digest"] = fmt::format("{:016x}", result.digest);
    json["stop_reason"] = result.stop_reason;
    json["command"] = result.command;
}

std::vector<std::string> learning_facts(const SimulationResult& result,
                                        const SimulateOptions& options, Task task) {
    std::vector<std::string> lines{"test " +
                                   format_scores(task, result.accuracy.value_or(0), result.loss)};
    if (result.tta_virtual_s) {
        lines.push_back(fmt::format(
            "target {} reached after {:.3f} s and {} samples",
            format_target(options.target_accuracy, options.target_loss), *result.tta_virtual_s,
            format_count(static_cast<std::uint64_t>(*result.samples_to_target))));
    } else if (has_target(options)) {
        lines.push_back(
            fmt::format("target {} not reached in {} samples",
                        format_target(options.target_accuracy, options.target_loss),
                        format_count(static_cast<std::uint64_t>(result.samples_applied))));
    }
    const auto computed = static_cast<double>(result.samples_computed);
    lines.push_back(
        fmt::format("engine: {:.1f} % of the time of {}; gradients of {} samples, {:.1f} % "
                    "of them not used; {} of parameters and gradients at most",
                    100 * engine_share(result), counted(result.threads, "core"),
                    format_count(static_cast<std::uint64_t>(result.samples_computed)),
                    100 * ratio(computed - static_cast<double>(result.samples_applied), computed),
                    format_bytes(result.buffer_bytes)));
    return lines;
}

/// What the workers' time and the servers' resources went to, as shares of the run.
std::string use_fact(const SimulationResult& result) {
    const auto total = [](const std::vector<double>& values) {
        return std::accumulate(values.begin(), values.end(), 0.0);
    };
    const double time = result.virtual_s * static_cast<double>(result.workers.size());
    std::string text = fmt::format("workers: {:.1f} % of the time computing, {:.1f} % waiting",
                                   100 * ratio(total(result.worker_busy_s), time),
                                   100 * ratio(total(result.worker_wait_s), time));
    if (!result.servers.empty()) {
        double busy = 0;
        double bytes = 0;
        for (const ServerUse& server : result.servers) {
            busy += server.busy_s / static_cast<double>(result.servers.size());
            bytes += server.rx_bytes + server.tx_bytes;
        }
        text +=
            fmt::format("; servers: {:.1f} % of the time updating, {}/s moved",
                        100 * ratio(busy, result.virtual_s),
                        format_bytes(static_cast<std::uint64_t>(ratio(bytes, result.virtual_s))));
    }
    return text;
}

}  // namespace

std::string simulation_json(const SimulationResult& result, const SimulateOptions& options,
                            Task task) {
    const std::int64_t arranged = regroupings(result);
    Json json{{"event", "summary"},
              {"mode", last_mode(result, options)},
              {"arch", word_of(options.arch)},
              {"workers", options.workers},
              {"servers", options.servers},
              {"nodes", options.nodes},
              {"profile", options.profile},
              {"time_as", options.time_as},
              {"pattern", options.trace.empty() ? options.pattern : options.trace}};
    add_accounts(json, result);
    json["switches"] = static_cast<std::int64_t>(result.switches.size()) - arranged;
    json["regroupings"] = arranged;
    json["decisions"] = decisions_json(result);
    json["predictor_scores"] = predictor_scores_json(result.predictor_scores);
    json["by_worker"] = workers_json(result);
    json["by_server"] = servers_json(result);
    if (!result.resizes.empty()) {
        json["resizes"] = resizes_json(result);
    }
    for (const Score& score : scores_of(task, result.accuracy.value_or(0), result.loss)) {
        json["test_" + std::string(score.name)] = or_null(!options.no_train, score.value);
    }
    add_times(json, result);
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> simulation_facts(const SimulationResult& result,
                                          const SimulateOptions& options, Task task) {
    const EngineAccounts& accounts = result.accounts;
    std::vector<std::string> lines{
        fmt::format("done ({}): {} samples in {} updates and {:.3f} s of virtual time, {:.0f} "
                    "samples/s",
                    result.stop_reason, result.samples_applied, result.updates, result.virtual_s,
                    ratio(static_cast<double>(result.samples_applied), result.virtual_s)),
        fmt::format("samples: {} leased = {} applied + {} returned + {} outstanding",
                    accounts.leased, accounts.applied, returned_samples(accounts),
                    accounts.outstanding)};
    const WorkerReport all = ClusterReport{.mode = {}, .workers = result.workers}.total();
    if (all.pushes > 0) {
        lines.push_back(gradients_fact(all));
    }
    lines.push_back(use_fact(result));
    if (!result.resizes.empty()) {
        lines.push_back(resizes_fact(result));
    }
    if (!result.switches.empty()) {
        const std::int64_t arranged = regroupings(result);
        lines.push_back(
            fmt::format("mode {} at the end, after {} and {}", last_mode(result, options),
                        counted(std::ssize(result.switches) - arranged, "switch", "switches"),
                        counted(arranged, "regrouping")));
    }
    if (!result.decisions.empty()) {
        lines.push_back(decisions_fact(result));
    }
    if (!result.predictor_scores.empty()) {
        lines.push_back(predictor_scores_line(result.predictor_scores));
    }
    if (!options.no_train) {
        const std::vector<std::string> learned = learning_facts(result, options, task);
        lines.insert(lines.end(), learned.begin(), learned.end());
    }
    lines.push_back(fmt::format("{} events in {:.1f} s ({:.0f}/s), {} at most, digest {:016x}",
                                format_count(result.events), result.wall_s,
                                ratio(static_cast<double>(result.events), result.wall_s),
                                format_bytes(result.peak_bytes), result.digest));
    return lines;
}

}  // namespace cohort
