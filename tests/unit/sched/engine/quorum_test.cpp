// quorum:X: its throughput and its lag, where they have a closed form.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cohort/sched/timing.hpp"
#include "support/sched/engine_script.hpp"
#include "support/sched/plan_for.hpp"

namespace cohort {
namespace {

using test::EngineScript;
using test::plan_for;

struct Pace {
    double pushes_s = 0;
    double lag = 0;  ///< mean over pushes, reference batches
};

/// Of rounds that take `seconds`: a fire of X pushes and, on average, `alone` fires of one. While a
/// fire of s pushes is applied N - s pushes are outstanding, and each lags by s more.
Pace of_rounds(double seconds, double alone, int quorum, int workers) {
    const double pushes = quorum + alone;
    return {.pushes_s = pushes / seconds,
            .lag = 1 - (quorum * quorum + alone) / (workers * pushes)};
}

/// Independent exponential times of mean 1: what is left of a time is exponential again, so a round
/// is a Markov chain of how many compute on new and on old parameters.
Pace of_exponential_times(int quorum, int workers) {
    struct Rest {
        double seconds = 0;
        double alone = 0;
    };
    const auto rest = [&](auto&& self, int fresh, int stale) -> Rest {
        const int computing = fresh + stale;
        if (workers - computing == quorum) {
            return {};
        }
        const double p = static_cast<double>(fresh) / computing;
        const Rest waits = fresh > 0 ? self(self, fresh - 1, stale) : Rest{};
        const Rest alone = stale > 0 ? self(self, fresh + 1, stale - 1) : Rest{};
        return {.seconds = 1.0 / computing + p * waits.seconds + (1 - p) * alone.seconds,
                .alone = p * waits.alone + (1 - p) * (1 + alone.alone)};
    };
    const Rest round = rest(rest, quorum, workers - quorum);
    return of_rounds(round.seconds, round.alone, quorum, workers);
}

/// The update engine under such times.
Pace measured(int quorum, int workers, int pushes) {
    EngineScript run(plan_for("quorum:" + std::to_string(quorum), Architecture::kServers, workers),
                     workers);
    std::mt19937_64 random(7);
    std::vector<bool> computing(static_cast<std::size_t>(workers), true);
    double seconds = 0;
    double lags = 0;
    std::size_t fires = 0;
    int applied = 0;
    while (applied < pushes) {
        std::vector<int> who;
        for (int worker = 0; worker < workers; ++worker) {
            if (computing[static_cast<std::size_t>(worker)]) {
                who.push_back(worker);
            }
        }
        seconds += std::exponential_distribution<>(static_cast<double>(who.size()))(random);
        const int worker =
            who[std::uniform_int_distribution<std::size_t>(0, who.size() - 1)(random)];
        computing[static_cast<std::size_t>(worker)] = false;
        (void)run.pushes(worker);
        for (; fires < run.fires.size(); ++fires) {
            for (const FiredPush& push : run.fires[fires].pushes) {
                computing[static_cast<std::size_t>(push.ticket.id.worker)] = true;
                lags += push.lag;
                ++applied;
            }
        }
    }
    return {.pushes_s = applied / seconds, .lag = lags / applied};
}

TEST(Quorum, OfAllIsSsgdAndOfOneIsAsgd) {
    double harmonic = 0;
    for (int i = 1; i <= 8; ++i) {
        harmonic += 1.0 / i;
    }
    EXPECT_NEAR(of_exponential_times(8, 8).pushes_s, 8 / harmonic, 1e-12);
    EXPECT_NEAR(of_exponential_times(8, 8).lag, 0, 1e-12);
    EXPECT_NEAR(of_exponential_times(1, 8).pushes_s, 8, 1e-12);
    EXPECT_NEAR(of_exponential_times(1, 8).lag, 7.0 / 8, 1e-12);
}

TEST(Quorum, HasThePaceAndTheLagOfTheory) {
    constexpr int kPushes = 40000;  // standard error about 0.5 %
    for (const int quorum : {1, 2, 4, 6, 7, 8}) {
        const Pace theory = of_exponential_times(quorum, 8);
        const Pace found = measured(quorum, 8, kPushes);
        EXPECT_NEAR(found.pushes_s, theory.pushes_s, 0.02 * theory.pushes_s) << quorum;
        EXPECT_NEAR(found.lag, theory.lag, 0.02) << quorum;
    }
}

/// Seven workers make a round of 0.1 s, the slow one an update of its own every 0.35 s.
TEST(Quorum, NobodyWaitsForOneThatIsSlow) {
    std::vector<double> own(8, 0.1);
    own[3] = 0.35;
    const std::vector<std::int64_t> batches(8, 64);
    const PlanTiming timing =
        time_plan(plan_for("quorum:7", Architecture::kServers, 8), own, batches, 512);
    const Pace theory = of_rounds(0.1, 0.1 / 0.35, 7, 8);
    EXPECT_NEAR(timing.samples_s, 64 * theory.pushes_s, 0.01 * timing.samples_s);
    EXPECT_NEAR(timing.mean_lag, theory.lag, 0.01);
    EXPECT_NEAR(timing.used, 1, 1e-9);
}

}  // namespace
}  // namespace cohort
