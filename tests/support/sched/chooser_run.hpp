#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <variant>
#include <vector>

#include "cohort/sched/policy.hpp"
#include "cohort/sched/update_engine.hpp"

namespace cohort::test {

/// A job under a virtual clock, to see what a policy does: workers that only take time, the update
/// engine, records of every iteration. No transfers, servers or gradients.
class ChooserRun {
public:
    /// Parts of an iteration that begins at `begin_s`: input_s, compute_s, push_s, pull_s.
    using Parts = std::function<IterationRecord(int worker, double begin_s, std::int64_t samples)>;
    static constexpr std::int64_t kBatch = 64;

    ChooserRun(const std::string& mode, int workers, Parts parts, ModeSetting setting = {})
        : parts_(std::move(parts)),
          setting_(complete(std::move(setting), workers)),
          policy_(make_policy(mode, setting_)),
          history_(workers, kBatch),
          running_(workers),
          detector_(workers, kBatch, 2),
          workers_(static_cast<std::size_t>(workers)),
          engine_({.workers = workers, .reference_batch = kBatch * workers},
                  *policy_->start().plan) {
        view_.history = &history_;
        view_.stragglers = &detector_;
        if (setting_.architecture == Architecture::kServers) {
            view_.running = &running_;  // in a ring nobody knows who is late
        }
        view_.forecast.own_s.resize(workers_.size());
        plan = engine_.plan().name;
        batches.assign(workers_.size(), kBatch);
        for (int worker = 0; worker < workers; ++worker) {
            start(worker, 0);
        }
    }

    /// Goes on until this time of its clock.
    void until(double end_s) {
        while (true) {
            const std::optional<double> wake_s =
                view_.running == nullptr ? std::nullopt : policy_->wake_at(running_);
            if (wake_s && *wake_s < std::min(end_s, events_.top().time_s)) {
                now_s = std::max(now_s, *wake_s);
                ++woken;
                ask();
                continue;
            }
            const Event event = events_.top();
            if (event.time_s > end_s) {
                break;
            }
            events_.pop();
            now_s = event.time_s;
            if (workers_[at(event.worker)].start == event.start) {
                push(event.worker);
            }
        }
        now_s = end_s;
    }
    void lose(int worker) {
        ++workers_[at(worker)].start;
        history_.forget(worker);
        running_.forget(worker);
        detector_.lost(worker);
        carry_out(engine_.lost(worker));
        ask();
    }
    /// As with servers, who comes back begins to count anew.
    void join(int worker) {
        workers_[at(worker)].iterations = 0;
        workers_[at(worker)].pushes = 0;
        carry_out(engine_.joined(worker));
        ask();
    }
    void forecast_by(std::function<Forecast(const TelemetryHistory&)> forecast) {
        forecast_ = std::move(forecast);
    }
    /// Forecasts come from a predictor that sees every record.
    void predict_by(const std::string& predictor) {
        predictor_ = make_predictor(predictor, static_cast<int>(workers_.size()), kBatch, nullptr);
        forecast_ = [this](const TelemetryHistory&) { return predictor_->predict(); };
    }
    [[nodiscard]] LoadView& view() { return view_; }
    [[nodiscard]] const StragglerDetector& detector() const { return detector_; }

    struct Change {
        double at_s = 0;
        std::string to;
        std::vector<std::int64_t> batches;
        Decision decision;
    };
    std::vector<Change> changes;
    std::vector<DecisionRecord> told;   ///< those that change nothing among them
    std::vector<RateWindow> windows;    ///< what plans achieved
    std::string plan;                   ///< in force
    std::vector<std::int64_t> batches;  ///< of leases from now on
    std::int64_t samples = 0;           ///< applied
    std::int64_t asked = 0;             ///< decisions
    std::int64_t woken = 0;             ///< of these, between updates
    double now_s = 0;

private:
    struct Event {
        double time_s = 0;
        int worker = 0;
        std::uint64_t start = 0;
        friend bool operator>(const Event& a, const Event& b) {
            return a.time_s != b.time_s ? a.time_s > b.time_s : a.worker > b.worker;
        }
    };
    struct Worker {
        std::uint64_t start = 0;  ///< of the iteration under way
        std::int64_t samples = 0;
        std::int64_t version = 0;
        std::uint64_t lease = 0;
        std::uint64_t pushes = 0;
        std::int64_t iterations = 0;
        double begin_s = 0;
        IterationRecord record;
    };

    static std::size_t at(int worker) { return static_cast<std::size_t>(worker); }
    static ModeSetting complete(ModeSetting setting, int workers) {
        setting.live.assign(at(workers), true);
        setting.batch = kBatch;
        setting.workers_at_start = workers;
        return setting;
    }
    void start(int index, std::int64_t version) {
        Worker& worker = workers_[at(index)];
        worker.samples = batches[at(index)];
        worker.version = version;
        worker.lease = ++leases_;
        worker.begin_s = now_s;
        worker.record = parts_(index, now_s, worker.samples);
        engine_.leased(index, worker.lease, worker.samples);
        running_.begun(index, now_s, worker.samples);
        events_.push({now_s + worker.record.own_s(), index, ++worker.start});
    }
    void push(int index) {
        Worker& worker = workers_[at(index)];
        ++worker.start;
        IterationRecord record = worker.record;
        record.worker = index;
        record.iteration = ++worker.iterations;
        record.samples = worker.samples;
        record.version = worker.version;
        record.arrived_s = now_s;
        history_.add(record);
        running_.ended(record);
        detector_.add(record);
        if (predictor_) {
            predictor_->add(record);
        }
        const std::int64_t version = engine_.version();
        carry_out(engine_.push({.id = {.worker = index,
                                       .incarnation = engine_.incarnation(index),
                                       .sequence = ++worker.pushes},
                                .lease = worker.lease,
                                .version = worker.version,
                                .samples = worker.samples}));
        if (engine_.version() != version) {
            ask();
        }
    }
    void carry_out(const std::vector<Effect>& effects) {
        for (const Effect& effect : effects) {
            if (const auto* fire = std::get_if<Fire>(&effect)) {
                samples += fire->samples;
                for (const Fire::Release& release : fire->releases) {
                    start(release.worker, fire->version);
                }
            } else if (const auto* release = std::get_if<ReleaseOne>(&effect)) {
                start(release->worker, release->version);
            } else if (const auto* stopped = std::get_if<Interrupt>(&effect)) {
                start(stopped->worker, stopped->version);
            }
        }
    }
    void ask() {
        ++asked;
        if (forecast_) {
            view_.forecast = forecast_(history_);
        }
        Telemetry telemetry{.seconds = now_s,
                            .samples_applied = samples,
                            .budget_samples = std::int64_t{1} << 40,
                            .updates = engine_.version(),
                            .workers = {},
                            .load = &view_};
        telemetry.workers.resize(workers_.size());
        for (std::size_t i = 0; i < workers_.size(); ++i) {
            const int index = static_cast<int>(i);
            telemetry.workers[i].own_s =
                history_.size(index) > 0 ? history_.record(index, 0).own_s(history_.batch()) : 0;
            telemetry.workers[i].live = engine_.live(static_cast<int>(i));
            telemetry.workers[i].pushes = static_cast<std::int64_t>(workers_[i].pushes);
        }
        Decision decision = policy_->decide(telemetry);
        for (RateWindow& window : policy_->take_windows()) {
            windows.push_back(std::move(window));
        }
        if (decision.record) {
            told.push_back(*decision.record);
        }
        if (!decision.plan && decision.batches.empty()) {
            return;
        }
        batches = decision.batches.empty() ? batches : decision.batches;
        plan = decision.plan ? decision.plan->name : plan;
        changes.push_back({.at_s = now_s, .to = plan, .batches = batches, .decision = decision});
        if (decision.plan) {
            carry_out(engine_.install(*decision.plan));
        }
    }

    Parts parts_;
    ModeSetting setting_;
    std::unique_ptr<ModePolicy> policy_;
    TelemetryHistory history_;
    ActiveIterations running_;
    StragglerDetector detector_;
    LoadView view_;
    std::unique_ptr<Predictor> predictor_;
    std::function<Forecast(const TelemetryHistory&)> forecast_;
    std::vector<Worker> workers_;
    UpdateEngine engine_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::uint64_t leases_ = 0;
};

/// An iteration of 1 s for a full batch, in proportion to the work.
inline IterationRecord second_of_work(double slowness, std::int64_t samples,
                                      double constant_s = 0) {
    return {.compute_s = slowness * static_cast<double>(samples) / ChooserRun::kBatch + constant_s};
}

}  // namespace cohort::test
