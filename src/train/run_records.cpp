#include <nlohmann/json.hpp>

#include <cmath>

#include "cohort/core/version.hpp"
#include "cohort/optim/vector_math.hpp"
#include "training_run.hpp"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

/// One rank exchanges nothing.
constexpr std::int64_t kBytesExchanged = 0;

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
        {"mode", options.mode},
        {"arch", options.arch},
        {"workers", 1},
        {"servers", options.servers},
        {"samples_applied", progress.samples_applied},
        {"samples_returned", summary.accounts.returned()},
        {"returned_non_finite", summary.accounts.returned_non_finite},
        {"returned_stop", summary.accounts.returned_stop},
        {"samples_leased", summary.accounts.leased},
        {"samples_outstanding", summary.accounts.outstanding},
        {"updates", progress.updates},
        {"test_accuracy", or_null(tested, test.accuracy)},
        {"test_loss", or_null(tested, test.loss)},
        {"tta_s", or_null(progress.tta_seconds.has_value(), progress.tta_seconds.value_or(0))},
        {"wall_s", progress.wall_seconds},
        {"train_s", progress.train_seconds},
        {"samples_per_s", summary.samples_per_s},
        {"bytes_sent", kBytesExchanged},
        {"bytes_received", kBytesExchanged},
        {"cpu_s", progress.cpu_seconds},
        {"arena_bytes", summary.arena_bytes},
        {"peak_bytes", summary.peak_bytes},
        {"stop_reason", to_string(summary.reason)},
        {"outputs_saved", summary.outputs_saved}}
        .dump();
}

std::string start_json(const TrainOptions& options, const TrainParts& parts,
                       const TrainProgress& progress) {
    const SampleSetInfo& train = parts.train_set->info();
    return Json{{"event", progress.samples_applied > 0 ? "resume" : "start"},
                {"version", version()},
                {"revision", revision()},
                {"samples_applied", progress.samples_applied},
                {"model", options.model},
                {"parameters", parts.replica.graph().parameters().elements()},
                {"data", options.data},
                {"source", train.source},
                {"train_samples", train.samples},
                {"test_samples", parts.test_set->info().samples},
                {"batch", options.batch},
                {"budget_samples", parts.budget_samples},
                {"optimizer", options.optimizer},
                {"lr", options.lr},
                {"momentum", options.momentum},
                {"weight_decay", options.weight_decay},
                {"lr_schedule", parts.schedule.to_text()},
                {"augment", options.augment},
                {"seed", options.seed},
                {"deterministic", options.deterministic},
                {"device", parts.device->description()}}
        .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string error_json(const std::exception& error, int exit_code, const TrainProgress& progress) {
    return Json{{"event", "error"},
                {"message", error.what()},
                {"exit_code", exit_code},
                {"samples_applied", progress.samples_applied},
                {"updates", progress.updates}}
        .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string non_finite_reason(const BatchResult& result, Replica& replica) {
    if (!std::isfinite(result.loss_sum)) {
        return "the loss is not finite";
    }
    const std::span<const float> gradients = replica.gradients();
    if (replica.device().kind() == DeviceKind::kCpu) {
        return is_finite(gradients) ? "" : "the gradient is not finite";
    }
    std::vector<float> host(gradients.size());
    replica.stream().copy(host.data(), gradients.data(), gradients.size_bytes());
    replica.stream().synchronize();
    return is_finite(host) ? "" : "the gradient is not finite";
}

}  // namespace cohort
