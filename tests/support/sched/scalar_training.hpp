#pragma once

#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "support/sched/engine_script.hpp"
#include "support/sched/plan_for.hpp"

namespace cohort::test {

/// A parameter of one number under an engine's updates, in double precision: heavy ball integrated
/// over the fraction, look-ahead releases, delay compensation, local steps. Worker i's loss is
/// (theta - i - 1)^2 / 2, so its gradient is the parameter it has been given less i + 1.
class ScalarTraining {
public:
    struct Rule {
        double eta = 1;
        double momentum = 0;
        StaleMomentum stale_momentum = StaleMomentum::kLookAhead;
        SyncPlan::LrUnit lr_rule = SyncPlan::LrUnit::kPerSample;
    };
    static constexpr std::int64_t kBatch = 8;

    ScalarTraining(std::string_view mode, int workers) : ScalarTraining(mode, workers, Rule()) {}
    ScalarTraining(std::string_view mode, int workers, const Rule& rule)
        : script(plan(mode, workers, rule), workers, kBatch),
          rule_(rule),
          given_(static_cast<std::size_t>(workers), 0),
          local_velocity_(static_cast<std::size_t>(workers), 0) {
        script.on_effect = [this](const Effect& effect) { carry_out(effect); };
    }

    static SyncPlan plan(std::string_view mode, int workers, const Rule& rule) {
        return make_plan(mode, {.live = std::vector<bool>(static_cast<std::size_t>(workers), true),
                                .batch = kBatch,
                                .workers_at_start = workers,
                                .stale_momentum = rule.stale_momentum,
                                .lr_rule = rule.lr_rule,
                                .own_seconds = {}});
    }

    /// Worker after worker finishes its work and pushes.
    EngineScript::Lines pushes(const std::vector<int>& order) {
        EngineScript::Lines lines;
        for (const int worker : order) {
            PushTicket ticket = script.ticket(worker);
            const double value =
                script.engine.plan().work == Work::kDelta ? delta(worker) : gradient(worker);
            ticket.gradient_norm = std::abs(value);
            ticket.reference_norm = std::abs(reference);
            ticket.reference_dot = reference * value;
            values_[ticket.id] = {.value = value, .at = given(worker)};
            const EngineScript::Lines more = script.carry_out(script.engine.push(ticket));
            lines.insert(lines.end(), more.begin(), more.end());
        }
        return lines;
    }

    [[nodiscard]] double theta() const noexcept { return theta_; }
    [[nodiscard]] const Fire& last() const { return script.fires.back(); }

    EngineScript script;
    double reference = 0;  ///< gradient that pushes are compared with; 0: none yet

private:
    struct Value {
        double value = 0;
        double at = 0;  ///< parameter it was computed on
    };

    double& given(int worker) { return given_.at(static_cast<std::size_t>(worker)); }
    double gradient(int worker) { return given(worker) - (worker + 1); }

    /// Local heavy ball; members of a group average their gradients, so each member's steps are
    /// those of the group.
    double delta(int worker) {
        const SyncPlan& plan = script.engine.plan();
        const std::vector<int>& members = plan.cohorts.front().members;
        const int first = worker / plan.group * plan.group;
        double& velocity = local_velocity_.at(static_cast<std::size_t>(worker));
        double local = given(worker);
        for (int step = 0; step < plan.local_steps; ++step) {
            double sum = 0;
            int count = 0;
            for (int i = first; i < first + plan.group && i < static_cast<int>(members.size());
                 ++i, ++count) {
                sum += local - (i + 1);
            }
            velocity = rule_.momentum * velocity + sum / count;
            local -= rule_.eta * velocity;
        }
        return local - given(worker);
    }

    void carry_out(const Effect& effect) {
        if (const auto* fire = std::get_if<Fire>(&effect)) {
            apply(*fire);
            for (const Fire::Release& release : fire->releases) {
                given(release.worker) = ahead(release.lag);
            }
        } else if (const auto* one = std::get_if<ReleaseOne>(&effect)) {
            given(one->worker) = ahead(one->lag);
        } else if (const auto* interrupt = std::get_if<Interrupt>(&effect)) {
            given(interrupt->worker) = ahead(interrupt->lag);
        }
    }

    void apply(const Fire& fire) {
        double sum = 0;
        const double lambda = script.engine.plan().delay_compensation;
        for (const FiredPush& push : fire.pushes) {
            const Value& v = values_.at(push.ticket.id);
            const double compensated = v.value + lambda * v.value * v.value * (theta_ - v.at);
            sum += static_cast<double>(push.ticket.samples) * push.weight * compensated /
                   static_cast<double>(fire.samples);
        }
        if (fire.work == Work::kDelta) {
            theta_ += sum;
            return;
        }
        const double f = fire.fraction;
        const double m = rule_.momentum;
        const double kept = std::pow(m, f);
        const double velocity = kept * velocity_ + (1 - kept) / (1 - m) * sum;
        theta_ -= rule_.eta * (f * sum - m * (velocity - velocity_)) / (1 - m);
        velocity_ = velocity;
    }

    [[nodiscard]] double ahead(double lag) const {
        const double m = rule_.momentum;
        return theta_ - rule_.eta * velocity_ * m * (1 - std::pow(m, lag)) / (1 - m);
    }

    Rule rule_;
    double theta_ = 0;
    double velocity_ = 0;
    std::vector<double> given_;           ///< by worker
    std::vector<double> local_velocity_;  ///< by worker
    std::map<PushId, Value> values_;
};

}  // namespace cohort::test
