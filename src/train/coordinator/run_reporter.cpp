#include "train/coordinator/run_reporter.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/log.hpp"
#include "core/scores.hpp"
#include "core/system/process_usage.hpp"
#include "core/units.hpp"
#include "train/live/live_page.hpp"

namespace cohort {
namespace {

/// " (and 12 such lines left out)"
std::string left_out(RecordLimit& limit) {
    const std::int64_t count = limit.take_left_out();
    return count > 0 ? fmt::format(" (and {} left out)", counted(count, "such line")) : "";
}

}  // namespace

RunReporter::RunReporter(const JobContext& parts, const TrainEnvironment& environment,
                         std::function<void(StopReason)> stop)
    : TrainControl(parts.options, *environment.clock, parts.budget_samples,
                   parts.train_set->info().samples, parts.train_set->info().task()),
      environment_(environment),
      stop_(std::move(stop)) {
}

void RunReporter::start() {
    started_ = clock().now();
    cpu_at_start_ = process_cpu_seconds();
}

void RunReporter::begin(TrainingSession& session, const std::string& metrics_file,
                        std::int64_t position, const std::string& first_line) {
    session_ = &session;
    metrics_ = std::make_unique<MetricsFile>(metrics_file, position);
    if (options().page_every_s > 0) {
        const auto page = std::make_shared<LivePage>(options().out, options().page_every_s);
        metrics_->show_to([this, page](std::string_view line) { page->add(line, clock().now()); });
    }
    metrics_->write(first_line);
}

void RunReporter::failed(const std::string& last_line) {
    if (metrics_) {
        metrics_->write(last_line);
    }
    hooks_.tell([this](TrainHook& hook) { hook.on_failure(*this); });
}

void RunReporter::make_hooks() {
    hooks_.add(make_nan_guard_hook());
    hooks_.add(environment_.live_line ? make_progress_hook(true, draw_live_line)
                                      : make_progress_hook(false, [](const std::string& line) {
                                            log_info("{}", line);
                                        }));
    hooks_.add(make_metrics_hook());
    if (options().tensorboard) {
        hooks_.add(make_tensorboard_hook());
    }
    if (!options().metrics_file.empty() || options().metrics_port >= 0) {
        hooks_.add(make_prometheus_hook());
    }
    if (!options().timeline.empty()) {
        hooks_.add(make_timeline_hook());
    }
    if (!options().record_trace.empty()) {
        hooks_.add(make_trace_hook());
    }
    if (!options().record_load.empty()) {
        hooks_.add(make_load_hook());
    }
    if (environment_.observer) {
        hooks_.add(environment_.observer());
    }
    hooks_.add(make_target_hook());
    hooks_.add(make_stop_hook(environment_.stop_requested));
    hooks_.started();
}

ClusterReport RunReporter::cluster() const {
    const LoadMonitor* const load = session_->load();
    ClusterReport report{.mode = session_->modes().in_force(),
                         .plan = session_->engine().plan(),
                         .pending = session_->engine().pending(),
                         .workers = session_->workers().reports(),
                         .loads = {},
                         .gradients = {}};
    for (std::size_t worker = 0; load != nullptr && worker < report.workers.size(); ++worker) {
        report.loads.push_back(load_of(load->history(), static_cast<int>(worker)));
        report.loads.back().slow = load->stragglers().open()[worker];
    }
    if (load != nullptr) {
        report.gradients = load->gradients();
    }
    return report;
}

void RunReporter::reach_target(double train_seconds) {
    progress_.tta_seconds = progress_.tta_seconds.value_or(train_seconds);
}

double RunReporter::seconds_of_training() const {
    return earlier_.train_seconds + (clock().now() - started_).count() - pauses_;
}

void RunReporter::update_progress(std::optional<double> cpu_seconds) {
    const SessionCounts& counts = session_->counts();
    progress_.samples_applied = counts.samples_applied;
    progress_.updates = counts.updates;
    progress_.drops = counts.drops;
    progress_.wall_seconds = earlier_.wall_seconds + (clock().now() - started_).count();
    progress_.train_seconds = seconds_of_training();
    progress_.cpu_seconds =
        earlier_.cpu_seconds + cpu_seconds.value_or(process_cpu_seconds()) - cpu_at_start_;
}

void RunReporter::updated(const UpdateOrder& update) {
    update_progress();
    StepReport step{.result = {.loss_sum = update.loss_sum,
                               .correct = update.correct,
                               .samples = update.samples},
                    .learning_rate = update.learning_rate,
                    .gradient_norm = update.gradient_norm,
                    .applied = true,
                    .epoch = update.epoch,
                    .version = update.version};
    for (const UpdateTerm& term : update.terms) {
        step.pushes.push_back(term.push);
    }
    hooks_.stepped(step);
}

void RunReporter::dropped(const StepReport& step) {
    update_progress();
    hooks_.stepped(step);
}

void RunReporter::evaluated(const EvaluationReport& report) {
    pauses_ += report.seconds;
    update_progress();
    progress_.evaluated_at = report.samples_applied;
    summary_.test = report;
    log_info("test after {} samples: {}", report.samples_applied,
             format_scores(task(), report.accuracy, report.loss));
    hooks_.evaluated(report);
}

void RunReporter::report_modes() {
    ModeController& modes = session_->modes();
    for (const SwitchReport& change : modes.switches().take()) {
        ++(change.same_mode() ? summary_.regroupings : summary_.switches);
        const bool often = change.same_mode() && said_.regrouping &&
                           (clock().now() - *said_.regrouping).count() < options().log_every_s;
        if (!often && said_.lines.admit(clock().now().count())) {
            log_info("{}{}", describe(change), left_out(said_.lines));
            said_.regrouping = clock().now();
        }
        hooks_.tell([&](TrainHook& hook) { hook.on_switch(*this, change); });
    }
    for (const DecisionRecord& decision : modes.decisions().take()) {
        const bool worth_it = decision.kept || decision.held_s >= options().log_every_s;
        if (worth_it && said_.lines.admit(clock().now().count())) {
            log_info("{}{}", describe(decision), left_out(said_.lines));
        }
        hooks_.tell([&](TrainHook& hook) { hook.on_decision(*this, decision); });
    }
    for (const RateWindow& window : modes.take_windows()) {
        hooks_.tell([&](TrainHook& hook) { hook.on_rate(*this, window); });
    }
}

void RunReporter::report_stragglers() {
    if (session_->load() == nullptr) {
        return;
    }
    for (const StragglerNews::Item& news : session_->load()->straggler_news().take()) {
        log_info("{}", describe(news));
        hooks_.tell([&](TrainHook& hook) { hook.on_straggler(*this, news); });
    }
}

TrainSummary RunReporter::summary() const {
    TrainSummary summary = summary_;
    summary.task = task();
    summary.mode = session_->modes().mode();
    summary.progress = progress_;
    summary.accounts = session_->leases().open().accounts();
    summary.cluster = cluster();
    if (LoadMonitor* const load = session_->load()) {
        summary.predictor_scores = load->scores();
        summary.brief = load->straggler_news().brief();
    }
    summary.part_s = progress_.train_seconds - earlier_.train_seconds;
    const auto samples = progress_.samples_applied - earlier_.samples_applied;
    summary.samples_per_s = summary.part_s > 0 ? static_cast<double>(samples) / summary.part_s : 0;
    return summary;
}

}  // namespace cohort
