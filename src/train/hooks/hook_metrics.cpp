#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "cohort/train/hooks.hpp"
#include "cohort/train/metrics_file.hpp"
#include "cohort/train/options.hpp"
#include "core/scores.hpp"
#include "records/run/decision_json.hpp"
#include "train/hooks/record_limit.hpp"
#include "train/run/run_records.hpp"

namespace cohort {
namespace {

void write(TrainControl& run, const Json& line) {
    run.metrics().write(line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Null: not known.
Json noise_scale_of(const ClusterReport& cluster) {
    const double value = cluster.gradients.noise_scale;
    return value != 0 && std::isfinite(value) ? Json(value) : Json(nullptr);
}

using Column = std::pair<const char*, double (*)(const WorkerLoad&)>;

/// Where GPUs tell.
constexpr std::array<Column, 3> kGpuColumns{{
    {"device_busy", [](const WorkerLoad& one) { return one.use.device_busy; }},
    {"device_clock", [](const WorkerLoad& one) { return one.use.device_clock; }},
    {"device_celsius", [](const WorkerLoad& one) { return one.use.device_celsius; }},
}};

/// Columns by worker; null for a worker without records.
void add_loads(Json& line, const ClusterReport& cluster) {
    constexpr std::array<Column, 13> kColumns{{
        {"tau_s", [](const WorkerLoad& one) { return one.own_s; }},
        {"input_s", [](const WorkerLoad& one) { return one.input_s; }},
        {"compute_s", [](const WorkerLoad& one) { return one.compute_s; }},
        {"push_s", [](const WorkerLoad& one) { return one.push_s; }},
        {"pull_s", [](const WorkerLoad& one) { return one.pull_s; }},
        {"wait_s", [](const WorkerLoad& one) { return one.wait_s; }},
        {"cpu_share", [](const WorkerLoad& one) { return one.use.cpu_share; }},
        {"host_busy", [](const WorkerLoad& one) { return one.use.host_busy; }},
        {"host_steal", [](const WorkerLoad& one) { return one.use.host_steal; }},
        {"rx_bytes_s", [](const WorkerLoad& one) { return one.use.rx_bytes_s; }},
        {"tx_bytes_s", [](const WorkerLoad& one) { return one.use.tx_bytes_s; }},
        {"host_rx_bytes_s", [](const WorkerLoad& one) { return one.use.host_rx_bytes_s; }},
        {"host_tx_bytes_s", [](const WorkerLoad& one) { return one.use.host_tx_bytes_s; }},
    }};
    if (cluster.loads.empty()) {
        return;
    }
    const auto add = [&](const Column& column) {
        Json values = Json::array();
        for (const WorkerLoad& one : cluster.loads) {
            values.push_back(one.own_s > 0 ? Json(column.second(one)) : Json(nullptr));
        }
        line[column.first] = std::move(values);
    };
    std::ranges::for_each(kColumns, add);
    if (std::ranges::any_of(cluster.loads,
                            [](const WorkerLoad& one) { return one.use.device_celsius > 0; })) {
        std::ranges::for_each(kGpuColumns, add);
    }
    Json batch = Json::array();
    Json slow = Json::array();
    double telemetry_s = 0;
    double iteration_s = 0;
    for (const WorkerLoad& one : cluster.loads) {
        batch.push_back(or_null(one.batch > 0, one.batch));
        slow.push_back(one.slow ? Json(word_of(one.slow->cause)) : Json(nullptr));
        telemetry_s += one.telemetry_s;
        iteration_s += one.own_s + one.wait_s;
    }
    line["batch"] = std::move(batch);
    line["slow"] = std::move(slow);
    line["telemetry_share"] = iteration_s > 0 ? telemetry_s / iteration_s : 0;
}

class MetricsHook final : public TrainHook {
public:
    void on_step(TrainControl& run, const StepReport& step) override {
        if (!step.applied) {
            write(run, {{"event", "dropped"},
                        {"samples_applied", run.progress().samples_applied},
                        {"samples", step.result.samples},
                        {"reason", step.dropped_because}});
        }
    }

    void on_window(TrainControl& run, const TrainWindow& window) override {
        Json lags = Json::array();
        Json own = Json::array();
        for (const WorkerReport& worker : window.cluster.workers) {
            lags.push_back(worker.live ? Json(worker.lag) : Json(nullptr));
            own.push_back(worker.own_s > 0 ? Json(worker.own_s) : Json(nullptr));
        }
        Json line{{"event", "train"},
                  {"samples_applied", window.samples_applied},
                  {"budget_samples", run.budget_samples()},
                  {"updates", window.updates},
                  {"train_s", window.train_s},
                  {"lr", window.learning_rate},
                  {"gradient_norm", window.gradient_norm},
                  {"samples_per_s", window.samples_per_s},
                  {"mode", window.cluster.mode},
                  {"live", window.cluster.live()},
                  {"pending", window.cluster.pending},
                  {"lag", lags},
                  {"own_s", own}};
        for (const Score& score : scores_of(run.task(), window.accuracy, window.loss)) {
            line[std::string(score.name)] = score.value;
        }
        line["noise_scale"] = noise_scale_of(window.cluster);
        add_loads(line, window.cluster);
        write(run, line);
    }

    void on_evaluation(TrainControl& run, const EvaluationReport& evaluation) override {
        Json line{{"event", "evaluation"},
                  {"samples_applied", evaluation.samples_applied},
                  {"updates", evaluation.updates},
                  {"train_s", evaluation.train_seconds}};
        for (const Score& score : scores_of(run.task(), evaluation.accuracy, evaluation.loss)) {
            line["test_" + std::string(score.name)] = score.value;
        }
        line["test_samples"] = evaluation.samples;
        line["pause_s"] = evaluation.seconds;
        write(run, line);
    }

    void on_checkpoint(TrainControl& run, const CheckpointReport& checkpoint) override {
        Json line{{"event", "checkpoint"},
                  {"samples_applied", checkpoint.samples_applied},
                  {"path", checkpoint.path},
                  {"pause_s", checkpoint.pause_seconds},
                  {"write_s", checkpoint.write_seconds}};
        if (!checkpoint.error.empty()) {
            line["error"] = checkpoint.error;
        }
        write(run, line);
    }

    void on_switch(TrainControl& run, const SwitchReport& change) override {
        Json line{{"event", change.same_mode() ? "regrouping" : "switch"},
                  {"from", change.from},
                  {"to", change.to},
                  {"why", change.why},
                  {"samples_applied", change.samples},
                  {"requested_at", change.train_seconds},
                  {"in_force_after_s", or_null(change.in_force_s)},
                  {"first_update_after_s", or_null(change.first_update_s)},
                  {"slowest_own_s", change.slowest_own_s}};
        write_bounded(change.same_mode() ? regroupings_ : switches_, run, line);
    }

    void on_straggler(TrainControl& run, const StragglerNews::Item& news) override {
        const StragglerEpisode& slow = news.episode;
        write(run,
              {{"event", news.kind == StragglerNews::Kind::kBegun ? "straggler" : "straggler_end"},
               {"samples_applied", run.progress().samples_applied},
               {"worker", slow.worker},
               {"cause", word_of(slow.cause)},
               {"by_lag", slow.by_lag},
               {"begin_s", slow.begin_s},
               {"end_s", slow.end_s},
               {"iterations", slow.iterations},
               {"slowdown", slow.slowdown}});
    }

    void on_decision(TrainControl& run, const DecisionRecord& decision) override {
        Json line{{"event", "decision"}};
        line.update(Json::parse(decision_json(decision)));
        write_bounded(decisions_, run, line);
    }

    void on_rate(TrainControl& run, const RateWindow& window) override {
        Json features = Json::object();
        for (std::size_t term = 0; term < RateFeatures::kTerms; ++term) {
            features[std::string(RateFeatures::kNames[term])] = window.features.values[term];
        }
        Json line{
            {"event", "rate"},     {"samples_applied", window.samples}, {"train_s", window.seconds},
            {"plan", window.plan}, {"log_rate", window.log_rate},       {"features", features}};
        if (run.options().record_rates) {  // all of them are asked for
            write(run, line);
        } else {
            write_bounded(rates_, run, line);
        }
    }

    void on_end(TrainControl& run, StopReason /*reason*/) override {
        Json line{{"event", "left_out"}};
        for (const auto& [kind, limit] :
             {std::pair("switch", &switches_), std::pair("regrouping", &regroupings_),
              std::pair("decision", &decisions_), std::pair("rate", &rates_)}) {
            if (const std::int64_t count = limit->take_left_out(); count > 0) {
                line[kind] = count;
            }
        }
        if (line.size() > 1) {
            write(run, line);
        }
    }

    void on_rank(TrainControl& run, const RankReport& rank) override {
        write(run, {{"event", rank.returned ? "joined" : "lost"},
                    {"samples_applied", run.progress().samples_applied},
                    {"train_s", run.progress().train_seconds},
                    {"rank", rank.rank},
                    {"worker", rank.worker},
                    {"reason", rank.reason},
                    {"live", rank.live}});
    }

private:
    static void write_bounded(RecordLimit& limit, TrainControl& run, Json& line) {
        if (!limit.admit(run.clock().now().count())) {
            return;
        }
        if (const std::int64_t count = limit.take_left_out(); count > 0) {
            line["left_out"] = count;
        }
        write(run, line);
    }

    RecordLimit switches_;
    RecordLimit regroupings_;
    RecordLimit decisions_;
    RecordLimit rates_;
};

}  // namespace

std::unique_ptr<TrainHook> make_metrics_hook() {
    return std::make_unique<MetricsHook>();
}

}  // namespace cohort
