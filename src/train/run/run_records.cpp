#include "train/run/run_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cohort/core/version.hpp"
#include "core/command_text.hpp"
#include "core/options.hpp"
#include "core/scores.hpp"
#include "train/run/option_list.hpp"

namespace cohort {
namespace {

Json workers_json(const TrainSummary& summary) {
    Json workers = Json::array();
    for (const WorkerReport& worker : summary.cluster.workers) {
        workers.push_back(worker_json(worker, summary.part_s));
        workers.back().update({{"lost", worker.lost}, {"live", worker.live}});
    }
    return workers;
}

/// Leased samples, and the reasons of returned ones.
Json accounts_json(const SampleAccounts& accounts) {
    return {{"samples_returned", accounts.returned()},
            {"returned_non_finite", accounts.returned_non_finite},
            {"returned_void_round", accounts.returned_void_round},
            {"returned_stop", accounts.returned_stop},
            {"returned_dropped", accounts.returned_dropped},
            {"returned_interrupted", accounts.returned_interrupted},
            {"returned_lost", accounts.returned_lost},
            {"samples_leased", accounts.leased},
            {"samples_outstanding", accounts.outstanding}};
}

/// Times, traffic and memory.
Json costs_json(const TrainSummary& summary) {
    return {{"wall_s", summary.progress.wall_seconds},
            {"train_s", summary.progress.train_seconds},
            {"samples_per_s", summary.samples_per_s},
            {"bytes_sent", summary.bytes_sent},
            {"bytes_received", summary.bytes_received},
            {"cpu_s", summary.progress.cpu_seconds},
            {"comm_cpu_s", summary.comm_cpu_seconds},
            {"refiner_cpu_s", summary.refiner.cpu_s},
            {"refiner_steps", summary.refiner.steps},
            {"refiner_renewals", summary.refiner.renewals},
            {"staging_bytes", summary.staging_bytes},
            {"snapshot_bytes", summary.snapshot_bytes},
            {"compute_s", summary.compute_s},
            {"exposed_s", summary.exposed_s},
            {"exchange_s", or_null(summary.exchange_s > 0, summary.exchange_s)},
            {"arena_bytes", summary.arena_bytes},
            {"peak_bytes", summary.peak_bytes}};
}

/// All options, as the command line writes them.
std::vector<std::pair<std::string, std::string>> listed(const TrainOptions& options) {
    std::vector<std::pair<std::string, std::string>> values;
    each_option(options, ListValues{values});
    return values;
}

/// The command that starts the run; empty: a program of the user's own, which computes the network.
std::string command_of(const JobContext& parts, int ranks) {
    if (parts.network != nullptr) {
        return "";
    }
    return command_text(
        (ranks > 1 ? fmt::format("mpirun -np {} ", ranks) : std::string()) + "cohort train",
        listed(parts.options), listed({}), {"overwrite", "resume"});
}

/// Hosts of the ranks, each once.
std::vector<std::string> hosts_of(const RankMap& map) {
    std::vector<std::string> hosts;
    for (const RankInfo& rank : map.ranks) {
        if (std::ranges::find(hosts, rank.host) == hosts.end()) {
            hosts.push_back(rank.host);
        }
    }
    return hosts;
}

Json options_json(const TrainOptions& options) {
    Json all = Json::object();
    for (auto& [name, value] : listed(options)) {
        all[name] = value;
    }
    return all;
}

Json failure(int exit_code, const std::string& reason) {
    return {{"event", "error"}, {"message", reason}, {"exit_code", exit_code}};
}

}  // namespace

Json worker_json(const WorkerReport& worker, double seconds) {
    const auto pushes = static_cast<double>(worker.pushes);
    return {
        {"samples", worker.samples},
        {"pushes", worker.pushes},
        {"refused", std::accumulate(worker.refused.begin(), worker.refused.end(), std::int64_t{0})},
        {"own_s", or_null(worker.own_s > 0, worker.own_s)},
        {"samples_per_s", or_null(seconds > 0, static_cast<double>(worker.samples) / seconds)},
        {"lag_mean", or_null(worker.pushes > 0, worker.lag_sum / pushes)},
        {"lag_max", or_null(worker.pushes > 0, worker.lag_max)}};
}

Json pushes_json(const WorkerReport& all) {
    Json refused = Json::object();
    for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
        refused[kReturnReasonNames.at(reason)] = all.refused.at(reason);
    }
    const auto pushes = static_cast<double>(all.pushes);
    const bool some = all.pushes > 0;
    return {{"pushes_applied", all.pushes},
            {"pushes_discounted", all.discounted},
            {"pushes_over_bound", all.over_bound},
            {"pushes_refused", refused},
            {"lag_mean", or_null(some, all.lag_sum / pushes)},
            {"lag_max", or_null(some, all.lag_max)},
            {"lag_updates_mean", or_null(some, static_cast<double>(all.lag_updates_sum) / pushes)}};
}

std::string summary_json(const TrainSummary& summary, const TrainOptions& options) {
    const TrainProgress& progress = summary.progress;
    const EvaluationReport test = summary.test.value_or(EvaluationReport());
    const bool tested = summary.test.has_value();
    Json line{{"event", "summary"},
              {"mode", summary.mode},
              {"arch", word_of(options.arch)},
              {"workers", summary.workers},
              {"servers", summary.servers},
              {"samples_applied", progress.samples_applied}};
    line.update(accounts_json(summary.accounts));
    line["updates"] = progress.updates;
    line.update(pushes_json(summary.cluster.total()));
    line.update(Json{{"switches", summary.switches},
                     {"regroupings", summary.regroupings},
                     {"predictor_scores", predictor_scores_json(summary.predictor_scores)},
                     {"stragglers_brief", summary.brief.episodes},
                     {"stragglers_brief_iterations", summary.brief.iterations},
                     {"lost", summary.losses.workers},
                     {"returned", summary.losses.returned},
                     {"losses", summary.losses.story},
                     {"takeovers", summary.losses.takeovers},
                     {"by_worker", workers_json(summary)},
                     {"compute", options.compute}});
    for (const Score& score : scores_of(summary.task, test.accuracy, test.loss)) {
        line["test_" + std::string(score.name)] = or_null(tested, score.value);
    }
    line["tta_s"] = or_null(progress.tta_seconds);
    line.update(costs_json(summary));
    line["stop_reason"] = to_string(summary.reason);
    line["outputs_saved"] = summary.outputs_saved;
    return line.dump();
}

std::string start_json(const JobContext& parts, const RankMap& map, const std::string& device,
                       const TrainProgress& progress, const std::string& after_loss) {
    const TrainOptions& options = parts.options;
    const SampleSetInfo& train = parts.train_set->info();
    return Json{{"event", progress.samples_applied > 0 ? "resume" : "start"},
                {"version", version()},
                {"revision", revision()},
                {"samples_applied", progress.samples_applied},
                {"after_loss", or_null(!after_loss.empty(), after_loss)},
                {"model", options.model},
                {"parameters", parts.graph.parameters().elements()},
                {"data", options.data},
                {"source", train.source},
                {"train_samples", train.samples},
                {"test_samples", parts.test_set->info().samples},
                {"arch", word_of(options.arch)},
                {"mode", options.mode_text()},
                {"stale_momentum", word_of(options.stale_momentum)},
                {"lr_rule", word_of(options.lr_rule)},
                {"predictor", options.predictor},
                {"inject", options.inject},
                {"compute", options.compute},
                {"max_lost", options.max_lost},
                {"workers", map.workers()},
                {"servers", map.servers},
                {"nodes", map.nodes()},
                {"batch", options.batch},
                {"reference_batch", parts.reference_batch},
                {"budget_samples", parts.budget_samples},
                {"target_accuracy", or_null(options.target_accuracy > 0, options.target_accuracy)},
                {"target_loss", or_null(options.target_loss > 0, options.target_loss)},
                {"optimizer", word_of(options.optimizer)},
                {"lr", options.lr},
                {"momentum", options.momentum},
                {"weight_decay", options.weight_decay},
                {"lr_schedule", parts.schedule.to_text()},
                {"augment", options.augment},
                {"seed", options.seed},
                {"deterministic", options.deterministic},
                {"device", device},
                {"hosts", hosts_of(map)},
                {"command", command_of(parts, map.size())},
                {"options", options_json(options)}}
        .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string failure_json(int exit_code, const std::string& reason) {
    return failure(exit_code, reason).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string undone_json(std::int64_t updates, std::int64_t samples, const std::string& why,
                        const TrainProgress& progress) {
    const Json line{{"event", "undone"},
                    {"samples_applied", progress.samples_applied},
                    {"train_s", progress.train_seconds},
                    {"updates", updates},
                    {"samples", samples},
                    {"reason", why}};
    return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string error_json(const std::exception& error, int exit_code, const TrainProgress& progress) {
    Json line = failure(exit_code, error.what());
    line.update({{"samples_applied", progress.samples_applied}, {"updates", progress.updates}});
    return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json predictor_scores_json(std::span<const PredictorScore> scores) {
    Json json = Json::array();
    for (const PredictorScore& score : scores) {
        json.push_back({{"predictor", score.predictor},
                        {"uses", score.uses},
                        {"horizon", score.horizon},
                        {"predictions", score.predictions},
                        {"relative_error", score.relative_error},
                        {"precision", score.precision},
                        {"recall", score.recall},
                        {"f1", score.f1}});
    }
    return json;
}

std::string predictor_scores_line(std::span<const PredictorScore> scores) {
    std::string line;
    for (const PredictorScore& score : scores) {
        if (line.empty()) {
            const bool other = !score.uses.empty() && score.uses != score.predictor;
            line = fmt::format("predictor {}{}: ", score.predictor,
                               other ? fmt::format(" (now {})", score.uses) : std::string());
        } else {
            line += "; ";
        }
        line += fmt::format("{} ahead off by {:.1f} %, F1 of stragglers {:.2f}", score.horizon,
                            100 * score.relative_error, score.f1);
    }
    return line;
}

}  // namespace cohort
