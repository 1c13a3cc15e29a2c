#include <nlohmann/json.hpp>

#include "cohort/core/version.hpp"
#include "run_records.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(bool known, const T& value) {
    return known ? Json(value) : Json(nullptr);
}

}  // namespace

std::string summary_json(const TrainSummary& summary, const TrainOptions& options) {
    const TrainProgress& progress = summary.progress;
    const EvaluationReport test = summary.test.value_or(EvaluationReport());
    const bool tested = summary.test.has_value();
    return Json{
        {"event", "summary"},
        {"mode", summary.mode},
        {"arch", options.arch},
        {"workers", summary.workers},
        {"servers", summary.servers},
        {"samples_applied", progress.samples_applied},
        {"samples_returned", summary.accounts.returned()},
        {"returned_non_finite", summary.accounts.returned_non_finite},
        {"returned_void_round", summary.accounts.returned_void_round},
        {"returned_stop", summary.accounts.returned_stop},
        {"returned_dropped", summary.accounts.returned_dropped},
        {"returned_interrupted", summary.accounts.returned_interrupted},
        {"returned_lost", summary.accounts.returned_lost},
        {"samples_leased", summary.accounts.leased},
        {"samples_outstanding", summary.accounts.outstanding},
        {"updates", progress.updates},
        {"test_accuracy", or_null(tested, test.accuracy)},
        {"test_loss", or_null(tested, test.loss)},
        {"tta_s", or_null(progress.tta_seconds.has_value(), progress.tta_seconds.value_or(0))},
        {"wall_s", progress.wall_seconds},
        {"train_s", progress.train_seconds},
        {"samples_per_s", summary.samples_per_s},
        {"bytes_sent", summary.bytes_sent},
        {"bytes_received", summary.bytes_received},
        {"cpu_s", progress.cpu_seconds},
        {"comm_cpu_s", summary.comm_cpu_seconds},
        {"staging_bytes", summary.staging_bytes},
        {"snapshot_bytes", summary.snapshot_bytes},
        {"compute_s", summary.compute_s},
        {"exposed_s", summary.exposed_s},
        {"exchange_s", or_null(summary.exchange_s > 0, summary.exchange_s)},
        {"arena_bytes", summary.arena_bytes},
        {"peak_bytes", summary.peak_bytes},
        {"stop_reason", to_string(summary.reason)},
        {"outputs_saved", summary.outputs_saved}}
        .dump();
}

std::string start_json(const JobParts& parts, const RankMap& map, const std::string& device,
                       const TrainProgress& progress) {
    const TrainOptions& options = parts.options;
    const SampleSetInfo& train = parts.train_set->info();
    return Json{{"event", progress.samples_applied > 0 ? "resume" : "start"},
                {"version", version()},
                {"revision", revision()},
                {"samples_applied", progress.samples_applied},
                {"model", options.model},
                {"parameters", parts.graph.parameters().elements()},
                {"data", options.data},
                {"source", train.source},
                {"train_samples", train.samples},
                {"test_samples", parts.test_set->info().samples},
                {"arch", options.arch},
                {"mode", options.mode},
                {"workers", map.workers()},
                {"servers", map.servers},
                {"nodes", map.nodes()},
                {"batch", options.batch},
                {"reference_batch", parts.reference_batch},
                {"budget_samples", parts.budget_samples},
                {"optimizer", options.optimizer},
                {"lr", options.lr},
                {"momentum", options.momentum},
                {"weight_decay", options.weight_decay},
                {"lr_schedule", parts.schedule.to_text()},
                {"augment", options.augment},
                {"seed", options.seed},
                {"deterministic", options.deterministic},
                {"device", device}}
        .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string failure_json(int exit_code, const std::string& reason) {
    return Json{{"event", "error"}, {"message", reason}, {"exit_code", exit_code}}.dump(
        -1, ' ', false, Json::error_handler_t::replace);
}

std::string error_json(const std::exception& error, int exit_code, const TrainProgress& progress) {
    return Json{{"event", "error"},
                {"message", error.what()},
                {"exit_code", exit_code},
                {"samples_applied", progress.samples_applied},
                {"updates", progress.updates}}
        .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cohort
