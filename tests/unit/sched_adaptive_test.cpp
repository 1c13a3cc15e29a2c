// The adaptive chooser: what it answers, how soon, and what it leaves alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/chooser_run.hpp"

namespace cohort::test {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

/// Repeatable noise: mean 1, uniform within `width` of it.
class Noise {
public:
    explicit Noise(double width) : width_(width) {}
    double next() {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        return 1 + width_ * (2 * static_cast<double>(state_ >> 40) / (1 << 24) - 1);
    }

private:
    double width_;
    std::uint64_t state_ = 11;
};

/// Worker 3 is slower by `slowness` while `slow` says so.
ChooserRun::Parts slow_third(double slowness, std::function<bool(double)> slow, double noise = 0) {
    return [=, dice = std::make_shared<Noise>(noise)](int worker, double begin_s,
                                                      std::int64_t samples) {
        const double factor = worker == 3 && slow(begin_s) ? slowness : 1;
        return second_of_work(factor * dice->next(), samples);
    };
}

double pace(const std::string& mode, ChooserRun::Parts parts, double end_s, int workers = 8) {
    ChooserRun run(mode, workers, std::move(parts));
    run.until(end_s);
    return static_cast<double>(run.samples) / end_s;
}

TEST(Adaptive, APersistentStragglerIsAnsweredWithinFiveIterations) {
    for (const double slowness : {1.34, 2.0, 5.0}) {
        const auto slow = [](double at_s) { return at_s >= 100; };
        ChooserRun run("adaptive", 8, slow_third(slowness, slow));
        run.until(100 + 5 * slowness);
        ASSERT_THAT(run.changes, SizeIs(Ge(1U))) << slowness;
        run.until(300);
        const double best = (7 + 1 / slowness) * 64;
        const double before = static_cast<double>(run.samples);
        run.until(600);
        EXPECT_GT((static_cast<double>(run.samples) - before) / 300, 0.9 * best) << slowness;
    }
}

TEST(Adaptive, ANoisyHealthyHourIsLeftAlone) {
    ChooserRun run("adaptive", 8,
                   slow_third(
                       1, [](double) { return false; }, 0.1));
    run.until(3600);
    EXPECT_THAT(run.changes, IsEmpty());
}

TEST(Adaptive, FlickeringFasterThanAChangePaysIsNotAnswered) {
    for (const double period : {2.0, 3.0, 4.0, 6.0}) {
        for (const double slowness : {2.0, 5.0}) {
            const auto slow = [=](double at_s) { return std::fmod(at_s, 2 * period) < period; };
            ChooserRun run("adaptive", 8, slow_third(slowness, slow));
            run.until(1000);
            EXPECT_THAT(run.changes, SizeIs(Le(4U))) << period << " " << slowness;
            EXPECT_GE(static_cast<double>(run.samples) / 1000,
                      0.95 * pace("ssgd", slow_third(slowness, slow), 1000));
        }
    }
}

TEST(Adaptive, ADelayIsNotBalancedAway) {
    const auto parts = [](int worker, double, std::int64_t samples) {
        return second_of_work(1, samples, worker == 3 ? 1 : 0);
    };
    ChooserRun run("adaptive", 8, parts);
    run.until(300);
    EXPECT_GT(static_cast<double>(run.samples) / 300, 0.9 * 7.5 * 64);
}

}  // namespace
}  // namespace cohort::test
