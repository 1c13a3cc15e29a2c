#include "cohort/optim/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

double factor(std::string_view text, std::int64_t samples) {
    return Schedule::parse(text).lr(1, samples);
}

TEST(Schedule, Constant) {
    EXPECT_EQ(Schedule().lr(0.1, 0), 0.1);
    EXPECT_EQ(Schedule::parse("constant").lr(0.1, 1'000'000'000'000), 0.1);
}

TEST(Schedule, StepAtAList) {
    EXPECT_EQ(factor("step:0.1@30000,45000", 0), 1);
    EXPECT_EQ(factor("step:0.1@30000,45000", 29999), 1);
    EXPECT_DOUBLE_EQ(factor("step:0.1@30000,45000", 30000), 0.1);
    EXPECT_DOUBLE_EQ(factor("step:0.1@30000,45000", 44999), 0.1);
    EXPECT_DOUBLE_EQ(factor("step:0.1@30000,45000", 45000), 0.01);
}

TEST(Schedule, StepEveryN) {
    EXPECT_EQ(factor("step:0.5@every:100", 99), 1);
    EXPECT_DOUBLE_EQ(factor("step:0.5@every:100", 100), 0.5);
    EXPECT_DOUBLE_EQ(factor("step:0.5@every:100", 350), 0.125);
}

TEST(Schedule, FactorsAreBoundedAndSoAreRates) {
    EXPECT_EQ(factor("step:1000@every:1", 1'000'000), 1e100) << "a number, not infinity";
    for (const char* text :
         {"step:1001@5", "step:1e300@5", "step:0@5", "step:-1@5", "step:nan@5"}) {
        EXPECT_THROW((void)Schedule::parse(text), UsageError) << text;
    }
}

TEST(Schedule, CosineGoesToItsFloorAndStays) {
    EXPECT_DOUBLE_EQ(factor("cosine:0.2@1000", 0), 1);
    EXPECT_DOUBLE_EQ(factor("cosine:0.2@1000", 500), 0.6);
    EXPECT_NEAR(factor("cosine:0.2@1000", 250), 0.2 + 0.8 * 0.853553, 1e-6);
    EXPECT_DOUBLE_EQ(factor("cosine:0.2@1000", 1000), 0.2);
    EXPECT_DOUBLE_EQ(factor("cosine:0.2@1000", 5000), 0.2);
}

TEST(Schedule, CosineTakesItsEndFromTheRun) {
    const Schedule open = Schedule::parse("cosine:0");
    EXPECT_TRUE(open.needs_end());
    EXPECT_THROW(static_cast<void>(open.lr(1, 0)), UsageError);
    const Schedule closed = open.with_end(1000);
    EXPECT_FALSE(closed.needs_end());
    EXPECT_DOUBLE_EQ(closed.lr(1, 500), 0.5);
    EXPECT_EQ(closed.with_end(7), closed);
    EXPECT_EQ(Schedule::parse("constant").with_end(7), Schedule());
}

TEST(Schedule, WarmUpIsLinearAndComesFirst) {
    EXPECT_EQ(factor("constant+warmup:400", 0), 0);
    EXPECT_EQ(factor("constant+warmup:400", 100), 0.25);
    EXPECT_EQ(factor("constant+warmup:400", 400), 1);
    EXPECT_DOUBLE_EQ(factor("step:0.1@200+warmup:400", 200), 0.05);
    // The cosine starts where the warm-up ends.
    EXPECT_DOUBLE_EQ(factor("cosine:0@1000+warmup:200", 100), 0.5);
    EXPECT_DOUBLE_EQ(factor("cosine:0@1000+warmup:200", 200), 1);
    EXPECT_DOUBLE_EQ(factor("cosine:0@1000+warmup:200", 600), 0.5);
    EXPECT_NEAR(factor("cosine:0@1000+warmup:200", 1000), 0, 1e-15);
}

TEST(Schedule, TextGoesBothWays) {
    for (const std::string_view text :
         {"constant", "constant+warmup:500", "step:0.1@30000,45000", "step:0.5@every:100",
          "step:0.1@7+warmup:3", "cosine:0.001", "cosine:0@60000", "cosine:0.01+warmup:500"}) {
        const Schedule schedule = Schedule::parse(text);
        EXPECT_EQ(schedule.to_text(), text);
        EXPECT_EQ(Schedule::parse(schedule.to_text()), schedule);
    }
}

TEST(Schedule, ErrorsSayTheGrammar) {
    for (const std::string_view text : {"",
                                        "linear",
                                        "step",
                                        "step:",
                                        "step:0.1",
                                        "step:0.1@",
                                        "step:x@5",
                                        "step:0.1@5,4",
                                        "step:0.1@5,5",
                                        "step:0.1@5,",
                                        "step:0@5",
                                        "step:0.1@every:0",
                                        "step:0.1@-3",
                                        "step:0.1@3.5",
                                        "step:0.1@3k",
                                        "cosine",
                                        "cosine:",
                                        "cosine:2",
                                        "cosine:-0.1",
                                        "cosine:nan",
                                        "cosine:0@x",
                                        "cosine:0@0",
                                        "constant:1",
                                        "constant@5",
                                        "constant+warmup:",
                                        "constant+warmup:0",
                                        "constant+warmup:5+warmup:6",
                                        " constant"}) {
        EXPECT_THAT([&] { static_cast<void>(Schedule::parse(text)); },
                    testing::ThrowsMessage<UsageError>(
                        testing::AllOf(testing::HasSubstr("step:FACTOR@every:N"),
                                       testing::HasSubstr("'" + std::string(text) + "'"))))
            << text;
    }
    EXPECT_THROW(static_cast<void>(Schedule::parse("cosine:0@100+warmup:100")), UsageError);
}

}  // namespace
}  // namespace cohort
