// Decisions of choosers: what is recorded when they are made, and what came of them.

#include <gmock/gmock.h>

#include "sched/session/mode_controller.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

DecisionRecord chosen(const std::string& plan, double samples_s) {
    return {.chooser = "star-h",
            .reason = "because",
            .candidates = {{.plan = plan, .samples_s = samples_s, .rate = 100},
                           {.plan = "other", .samples_s = 1, .rate = 80}}};
}

TEST(DecisionLog, TheNextDecisionTellsWhatCameOfOne) {
    DecisionLog book;
    book.made(chosen("static:7", 5000), {.seconds = 10, .samples = 1000, .loss = 2},
              "star-h (ssgd)", "star-h (static:7)");
    book.took(0.25);
    EXPECT_THAT(book.take(), IsEmpty());
    book.made(chosen("ssgd", 4000), {.seconds = 14, .samples = 17'000, .loss = 1.5}, "a", "b");
    const std::vector<DecisionRecord> complete = book.take();
    ASSERT_THAT(complete, SizeIs(1));
    const DecisionRecord& first = complete.front();
    EXPECT_EQ(first.from, "star-h (ssgd)");
    EXPECT_EQ(first.to, "star-h (static:7)");
    EXPECT_EQ(first.seconds, 10);
    EXPECT_EQ(first.samples, 1000);
    EXPECT_EQ(first.decide_s, 0.25);
    EXPECT_EQ(first.held_s, 4);
    EXPECT_EQ(first.measured_samples_s, 4000);
    EXPECT_EQ(first.measured_loss_fall_s, 0.125);
    ASSERT_NE(chosen_candidate(first), nullptr);
    EXPECT_EQ(chosen_candidate(first)->samples_s, 5000);
    EXPECT_EQ(describe(first),
              "star-h: static:7 held for 4.0 s with 4000 samples/s, 5000 predicted");
    DecisionRecord kept = first;
    kept.kept = true;
    EXPECT_EQ(describe(kept),
              "star-h: static:7 held for 4.0 s with 4000 samples/s, 5000 predicted; because");
    book.closed({.seconds = 20, .samples = 17'000});
    book.closed({.seconds = 30, .samples = 17'000});
    const std::vector<DecisionRecord> rest = book.take();
    ASSERT_THAT(rest, SizeIs(1));
    EXPECT_EQ(rest.front().held_s, 6);
    EXPECT_EQ(rest.front().measured_samples_s, 0);
    EXPECT_EQ(rest.front().measured_loss_fall_s, 0) << "the loss at the end is not known";
    EXPECT_EQ(chosen_candidate(rest.front()), nullptr);
}

Telemetry at(std::int64_t round, double slowest) {
    Telemetry telemetry{.seconds = 0.1 * static_cast<double>(round),
                        .samples_applied = 32 * round,
                        .budget_samples = 1'000'000,
                        .updates = round,
                        .workers = std::vector<WorkerReport>(4, {.pushes = round, .own_s = 0.1})};
    telemetry.workers.back().own_s = slowest;
    return telemetry;
}

TEST(SwitchReport, IsASentence) {
    SwitchReport change{.from = "adaptive (ssgd)",
                        .to = "adaptive (balanced)",
                        .why = "worker 3 is 3.6x slower: smaller batches for it",
                        .samples = 512,
                        .in_force_s = 0.01,
                        .first_update_s = 0.1234};
    EXPECT_EQ(describe(change),
              "adaptive: worker 3 is 3.6x slower: smaller batches for it; ssgd -> balanced after "
              "512 samples, first update after 0.123 s");
    change.from = change.to;
    change.first_update_s.reset();
    EXPECT_EQ(
        describe(change),
        "adaptive: worker 3 is 3.6x slower: smaller batches for it; balanced with its workers "
        "arranged anew after 512 samples");
    EXPECT_EQ(describe({.from = "ssgd", .to = "adaptive (ssgd)", .why = "request", .samples = 9}),
              "mode ssgd -> adaptive (ssgd) after 9 samples (request), overtaken by the next one");
}

ModeController desk_of(const char* mode, const ModeSetting& setting) {
    return {{.modes = {{.mode = parse_mode(mode, setting)}}}, setting, 0};
}

TEST(ModeController, RecordsWhatAChooserChanges) {
    ModeController desk =
        desk_of("star-h", {.live = std::vector<bool>(4, true), .batch = 8, .own_seconds = {}});
    EXPECT_EQ(desk.start().name, "ssgd");
    std::int64_t round = 1;
    std::optional<PlanChange> change;
    for (; round < 20 && !change; ++round) {
        change = desk.ask(at(round, round < 10 ? 0.1 : 0.3));
        desk.decisions().took(0.001);
    }
    ASSERT_TRUE(change);
    EXPECT_EQ(change->plan.name, "static:3");
    desk.installed(change->plan, 1.2);
    EXPECT_THAT(desk.decisions().take(), IsEmpty()) << "what came of it is not known yet";
    EXPECT_FALSE(desk.ask(at(round, 0.3)));
    desk.decisions().took(5);  // decided nothing
    desk.end({.seconds = 3.1, .samples = 1000});
    const std::vector<DecisionRecord> decisions = desk.decisions().take();
    ASSERT_THAT(decisions, SizeIs(1));
    EXPECT_EQ(decisions[0].chooser, "star-h");
    EXPECT_EQ(decisions[0].from, "star-h (ssgd)");
    EXPECT_EQ(decisions[0].to, "star-h (static:3)");
    EXPECT_THAT(decisions[0].reason, HasSubstr("worker 3"));
    EXPECT_EQ(decisions[0].decide_s, 0.001);
    EXPECT_NEAR(decisions[0].held_s, 3.1 - decisions[0].seconds, 1e-9);
    EXPECT_NE(chosen_candidate(decisions[0]), nullptr);
}

TEST(ModeController, ARequestEndsWhatAChooserAnswersFor) {
    ModeController desk =
        desk_of("star-h", {.live = std::vector<bool>(4, true), .batch = 8, .own_seconds = {}});
    (void)desk.start();
    for (std::int64_t round = 1; round < 20; ++round) {
        (void)desk.ask(at(round, 0.3));
    }
    desk.request("asgd");
    (void)desk.ask(at(30, 0.3));
    const std::vector<DecisionRecord> decisions = desk.decisions().take();
    ASSERT_THAT(decisions, SizeIs(1));
    EXPECT_NEAR(decisions[0].seconds + decisions[0].held_s, 3, 1e-9);
}

TEST(ModeController, PlainModesDecideNothing) {
    ModeController desk =
        desk_of("dynamic", {.live = std::vector<bool>(4, true), .batch = 8, .own_seconds = {}});
    (void)desk.start();
    for (std::int64_t round = 1; round < 20; ++round) {
        (void)desk.ask(at(round, 0.3));
    }
    desk.end({});
    EXPECT_THAT(desk.decisions().take(), IsEmpty());
}

TEST(ModeController, OneWorkerLeavesNothingToChoose) {
    for (const char* mode : {"adaptive", "star-h", "star-h-exact", "star-ml", "ssgd-or-asgd"}) {
        ModeController desk = desk_of(mode, {.live = {true}, .batch = 8, .own_seconds = {}});
        EXPECT_FALSE(desk.wants_load()) << mode;
        EXPECT_EQ(desk.start().name, "ssgd");
    }
    ModeController recording =
        desk_of("star-h",
                {.live = {true}, .batch = 8, .own_seconds = {}, .chooser = {.record_rates = true}});
    EXPECT_TRUE(recording.wants_gradients()) << "what its plan achieves is measured all the same";
}

TEST(ModeController, LooksWhenAScheduleOrARequestIsDue) {
    const ModeSetting setting{.live = {true, true}, .batch = 10};
    ModeController desk({.modes = parse_mode_schedule("0:ssgd,100:asgd", setting)}, setting, 0);
    (void)desk.start();
    EXPECT_FALSE(desk.looks({.updates = 1, .pushes = 2, .samples_applied = 20}));
    EXPECT_TRUE(desk.looks({.updates = 1, .pushes = 2, .samples_applied = 100}));
    desk.request("asgd");
    EXPECT_TRUE(desk.looks({.updates = 1, .pushes = 2, .samples_applied = 20}));
    EXPECT_FALSE(desk.switches().awaits_update());
}

}  // namespace
}  // namespace cohort
