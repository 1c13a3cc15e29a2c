#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "cohort/sched/policy.hpp"
#include "cohort/sched/update_engine.hpp"
#include "support/sched/random_plans.hpp"

namespace cohort::test {

/// One engine under random events, its workers as executors know them (by the effects alone), and
/// what must always hold. Pushes may be on their way for a while: then they meet what happened
/// meanwhile.
class RandomRun {
public:
    /// kPlans: plans nobody would think of. kModes: what --mode names, with its policy.
    enum class Plans : std::uint8_t { kPlans, kModes };

    RandomRun(std::uint64_t seed, int workers, Plans plans)
        : dice_(seed),
          plans_(plans),
          states_(static_cast<std::size_t>(workers)),
          plan_(next_plan()),
          engine_({.workers = workers, .reference_batch = kBatch * workers}, plan_) {
        note_plan();
        for (int worker = 0; worker < workers; ++worker) {
            state(worker).work = plan_.work;
            lease(worker);
        }
    }

    void step();
    void finish();
    [[nodiscard]] std::int64_t pushes() const { return pushes_; }
    /// Pushes applied although over the bound, and plans that a policy changed to.
    [[nodiscard]] std::int64_t admitted() const { return admitted_; }
    [[nodiscard]] std::int64_t decisions() const { return decisions_; }

private:
    static constexpr std::int64_t kBatch = 8;

    struct State {
        std::deque<std::uint64_t> leases;
        bool live = true;
        bool idle = false;
        bool waiting = false;  ///< has pushed and was not released
        Work work = Work::kGradient;
        std::int64_t version = 0;
        std::int64_t pushed_version = 0;  ///< of the last push
        std::uint64_t sequence = 0;
        int pending = 0;
        int setbacks = 0;  ///< in a row for its lag; only known with kModes
        std::optional<PushTicket> on_its_way;
        bool placed = true;  ///< has a place in the plan
        double seconds = 1;  ///< its own time
        std::int64_t accepted = 0;
    };

    State& state(int worker) { return states_[static_cast<std::size_t>(worker)]; }
    [[nodiscard]] std::vector<bool> live() const;
    SyncPlan next_plan();
    void note_plan();
    void install(SyncPlan plan);
    void install_another();
    void ask_policy();
    void lease(int worker);
    PushTicket ticket(int worker);
    void push(int worker);
    void deliver(const PushTicket& ticket);
    void push_stale();
    void lose_or_join(int worker);
    void idle_or_resume(int worker);
    void provide();
    void carry_out(const std::vector<Effect>& effects);
    void applied(const Fire& fire);
    void check_push(const Fire& fire, const FiredPush& push);
    void returned(const ReturnLease& back);
    void start(int worker, std::int64_t version);
    void check();
    void check_workers();

    Dice dice_;
    Plans plans_;
    std::vector<State> states_;
    std::unique_ptr<ModePolicy> policy_;
    SyncPlan plan_;
    UpdateEngine engine_;
    Telemetry telemetry_;
    std::deque<PushTicket> stale_;
    std::set<std::uint64_t> open_;          ///< leases that were neither applied nor returned
    std::set<std::uint64_t> pending_;       ///< of those: pushed
    std::set<std::uint64_t> carried_over_;  ///< of those: pushed before the plan was installed
    bool free_ = false;                     ///< the plan makes nobody wait
    bool fresh_ = false;                    ///< the plan applies nothing that is late
    std::optional<std::int64_t> fired_;     ///< last update since the installation
    std::uint64_t next_lease_ = 0;
    std::int64_t leased_ = 0;
    std::int64_t applied_ = 0;
    std::int64_t returned_ = 0;
    std::int64_t version_ = 0;
    std::int64_t pushes_ = 0;
    std::int64_t admitted_ = 0;
    std::int64_t decisions_ = 0;
    std::vector<double> batches_ = {0};  ///< reference batches applied, by version
};

}  // namespace cohort::test
