#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/options.hpp"
#include "core/log.hpp"
#include "core/scores.hpp"
#include "data/file/text_file.hpp"
#include "records/prometheus_text.hpp"
#include "train/hooks/metrics_server.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

using Type = PrometheusText::Type;

/// What the run is named by: the last part of its output folder.
std::string run_name(const std::string& out) {
    const std::filesystem::path path = std::filesystem::absolute(out).lexically_normal();
    return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

/// A score's name with its unit.
std::string metric_of(std::string_view group, const Score& score) {
    return fmt::format("cohort_{}_{}{}", group, score.name,
                       score.name == "accuracy" ? "_ratio" : "");
}

void add_scores(PrometheusText& text, std::string_view group, const std::vector<Score>& scores,
                std::string_view over) {
    for (const Score& score : scores) {
        text.metric(metric_of(group, score), Type::kGauge, fmt::format("{} {}.", score.name, over));
        text.sample(score.value);
    }
}

/// A figure of every worker.
struct WorkerMetric {
    const char* name;
    Type type;
    const char* help;
    double (*value)(const WorkerReport&);
};
constexpr std::array<WorkerMetric, 5> kWorkerMetrics{{
    {"cohort_worker_up", Type::kGauge, "1: the worker takes part, 0: it was lost.",
     [](const WorkerReport& one) { return one.live ? 1.0 : 0.0; }},
    {"cohort_worker_samples_applied_total", Type::kCounter,
     "Samples of the worker applied since the start or resume of the run.",
     [](const WorkerReport& one) { return static_cast<double>(one.samples); }},
    {"cohort_worker_pushes_applied_total", Type::kCounter,
     "Gradients of the worker applied since the start or resume of the run.",
     [](const WorkerReport& one) { return static_cast<double>(one.pushes); }},
    {"cohort_worker_losses_total", Type::kCounter, "Times that the worker was lost.",
     [](const WorkerReport& one) { return static_cast<double>(one.lost); }},
    {"cohort_worker_lag_batches", Type::kGauge,
     "Lag of the worker's last gradient in reference batches.",
     [](const WorkerReport& one) { return one.lag; }},
}};

/// A mean over the worker's newest iterations.
struct LoadMetric {
    const char* name;
    const char* help;
    double (*value)(const WorkerLoad&);
};
constexpr std::array<LoadMetric, 8> kLoadMetrics{{
    {"cohort_worker_own_seconds", "Time of an iteration without waiting for others.",
     [](const WorkerLoad& one) { return one.own_s; }},
    {"cohort_worker_input_seconds", "Waiting for the batch, per iteration.",
     [](const WorkerLoad& one) { return one.input_s; }},
    {"cohort_worker_compute_seconds", "Forward and backward, per iteration.",
     [](const WorkerLoad& one) { return one.compute_s; }},
    {"cohort_worker_push_seconds", "Sending the gradient after backward, per iteration.",
     [](const WorkerLoad& one) { return one.push_s; }},
    {"cohort_worker_pull_seconds", "Receiving parameters, per iteration.",
     [](const WorkerLoad& one) { return one.pull_s; }},
    {"cohort_worker_wait_seconds", "Waiting for others, per iteration.",
     [](const WorkerLoad& one) { return one.wait_s; }},
    {"cohort_worker_cpu_share_ratio", "Processor time received over processor time wanted.",
     [](const WorkerLoad& one) { return one.use.cpu_share; }},
    {"cohort_worker_slow", "1: the worker is a straggler.",
     [](const WorkerLoad& one) { return one.slow ? 1.0 : 0.0; }},
}};

void add_workers(PrometheusText& text, const ClusterReport& cluster) {
    for (const WorkerMetric& metric : kWorkerMetrics) {
        text.metric(metric.name, metric.type, metric.help);
        for (std::size_t worker = 0; worker < cluster.workers.size(); ++worker) {
            text.sample(metric.value(cluster.workers[worker]),
                        {{"worker", std::to_string(worker)}});
        }
    }
    text.metric("cohort_worker_pushes_refused_total", Type::kCounter,
                "Gradients of the worker that were not applied, by reason.");
    for (std::size_t worker = 0; worker < cluster.workers.size(); ++worker) {
        for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
            text.sample(
                static_cast<double>(cluster.workers[worker].refused.at(reason)),
                {{"worker", std::to_string(worker)}, {"reason", kReturnReasonNames.at(reason)}});
        }
    }
    for (const LoadMetric& metric : kLoadMetrics) {
        text.metric(metric.name, Type::kGauge, metric.help);
        for (std::size_t worker = 0; worker < cluster.loads.size(); ++worker) {
            if (cluster.loads[worker].own_s > 0) {  // it has records
                text.sample(metric.value(cluster.loads[worker]),
                            {{"worker", std::to_string(worker)}});
            }
        }
    }
}

/// Shows the figures of the newest window to Prometheus: in a file for the node exporter's textfile
/// collector, and to those who ask on a port.
class PrometheusHook final : public TrainHook {
public:
    /// Errors: FileError, UsageError: file or port cannot be used.
    void on_start(TrainControl& run) override {
        const TrainOptions& options = run.options();
        if (!options.metrics_file.empty()) {
            file_ = check_metrics_file(options);
        }
        if (options.metrics_port >= 0) {
            server_ = std::make_unique<MetricsServer>(options.metrics_port);
            log_info("Prometheus: http://127.0.0.1:{}/metrics", server_->port());
        }
        window_ = {.samples_applied = run.progress().samples_applied,
                   .updates = run.progress().updates,
                   .train_s = run.progress().train_seconds,
                   .cluster = run.cluster()};
        publish(run);
    }

    void on_window(TrainControl& run, const TrainWindow& window) override {
        window_ = window;
        trained_ = true;
        publish(run);
    }

    void on_evaluation(TrainControl& run, const EvaluationReport& evaluation) override {
        test_ = evaluation;
        publish(run);
    }

    void on_switch(TrainControl& /*run*/, const SwitchReport& change) override {
        switches_ += change.same_mode() ? 0 : 1;
    }

private:
    void publish(const TrainControl& run) {
        const std::string text = text_of(run);
        if (file_) {
            try {
                replace_text_file(*file_, text, FileLife::kRenewed);
                file_->replace = true;
            } catch (const FileError& error) {
                log_error("{}; the file of --metrics-file is not renewed any more", error.what());
                file_.reset();
            }
        }
        if (server_) {
            server_->publish(text);
        }
    }

    [[nodiscard]] std::string text_of(const TrainControl& run) const {
        PrometheusText text("run", run_name(run.options().out));
        const auto single = [&text](std::string_view name, Type type, std::string_view help,
                                    double value) {
            text.metric(name, type, help);
            text.sample(value);
        };
        single("cohort_samples_applied_total", Type::kCounter, "Samples applied.",
               static_cast<double>(window_.samples_applied));
        single("cohort_updates_total", Type::kCounter, "Updates of the parameters.",
               static_cast<double>(window_.updates));
        single("cohort_train_seconds_total", Type::kCounter,
               "Time of training without evaluation pauses.", window_.train_s);
        single("cohort_budget_samples", Type::kGauge, "Samples after which the run ends.",
               static_cast<double>(run.budget_samples()));
        single("cohort_mode_switches_total", Type::kCounter,
               "Changes of the mode since the start or resume of the run.",
               static_cast<double>(switches_));
        text.metric("cohort_mode_info", Type::kGauge, "The mode in force, as a label.");
        text.sample(1, {{"mode", window_.cluster.mode}});
        single("cohort_pending_pushes", Type::kGauge, "Gradients that wait for others.",
               static_cast<double>(window_.cluster.pending));
        if (trained_) {
            single("cohort_samples_per_second", Type::kGauge, "Samples applied per second.",
                   window_.samples_per_s);
            single("cohort_learning_rate", Type::kGauge, "Learning rate of the last update.",
                   window_.learning_rate);
            single("cohort_gradient_norm", Type::kGauge, "Gradient norm of the last update.",
                   window_.gradient_norm);
            add_scores(text, "train", scores_of(run.task(), window_.accuracy, window_.loss),
                       "over the samples since the line before");
        }
        if (test_) {
            add_scores(text, "test", scores_of(run.task(), test_->accuracy, test_->loss),
                       "over the test set, at the last evaluation");
        }
        add_workers(text, window_.cluster);
        return text.text();
    }

    std::optional<OutputFile> file_;
    std::unique_ptr<MetricsServer> server_;
    TrainWindow window_;
    bool trained_ = false;  ///< window_ is one
    std::optional<EvaluationReport> test_;
    std::int64_t switches_ = 0;
};

}  // namespace

std::unique_ptr<TrainHook> make_prometheus_hook() {
    return std::make_unique<PrometheusHook>();
}

}  // namespace cohort
