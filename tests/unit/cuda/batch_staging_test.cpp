// Batches copied ahead of their steps: with streams that work when they are told, in the orders
// that a device may choose.
#include <gtest/gtest.h>

#include <vector>

#include "layers/model/batch_staging.hpp"
#include "support/gpu/whole_batch_rig.hpp"
#include "support/train/lazy_device.hpp"

namespace cohort {
namespace {

using test::LazyDevice;
using test::LazyStream;

using Values = std::vector<float>;

std::vector<BatchPart> parts_of(const Values& samples, const Values& targets) {
    return {{samples.data(), samples.size() * sizeof(float), &WholeBatchPlan::samples},
            {targets.data(), targets.size() * sizeof(float), &WholeBatchPlan::targets}};
}

/// What a step finds in its places.
struct Step {
    explicit Step(std::size_t samples) : samples(samples), targets(1) {}
    /// False: the batch is not there.
    bool run(BatchStaging& staging, Stream& stream, std::uint64_t serial) {
        const std::vector<BatchPart> parts = staging.take(serial);
        for (const BatchPart& part : parts) {
            Values& place = part.place == &WholeBatchPlan::samples ? samples : targets;
            stream.copy(place.data(), part.from, part.bytes);
        }
        if (!parts.empty()) {
            staging.taken();
        }
        return !parts.empty();
    }
    Values samples;
    Values targets;
};

class Staging : public testing::Test {
protected:
    LazyDevice device;
    LazyStream steps;
    const Values one{1, 2, 3};
    const Values other{4, 5, 6};
    const Values large = Values(100, 7);
    const Values target{-1};
};

TEST_F(Staging, AStepWaitsForItsBatchAndTheNextBatchForTheStep) {
    for (const bool copies_first : {false, true}) {
        BatchStaging staging(device, steps);
        staging.begin(parts_of(one, target), 1);
        LazyStream& copies = device.newest();
        Step first(3);
        ASSERT_TRUE(first.run(staging, steps, 1));
        staging.begin(parts_of(other, target), 2);
        Step second(3);
        ASSERT_TRUE(second.run(staging, steps, 2));
        (copies_first ? copies : steps).synchronize();
        steps.synchronize();
        EXPECT_EQ(first.samples, one);
        EXPECT_EQ(first.targets, target);
        EXPECT_EQ(second.samples, other);
    }
}

TEST_F(Staging, ALargerBatchTakesOtherMemoryWhenNobodyReadsTheOldOne) {
    BatchStaging staging(device, steps);
    staging.begin(parts_of(one, target), 1);
    Step first(3);
    ASSERT_TRUE(first.run(staging, steps, 1));
    staging.begin(parts_of(large, target), 2);
    Step second(large.size());
    ASSERT_TRUE(second.run(staging, steps, 2));
    steps.synchronize();
    EXPECT_EQ(first.samples, one);
    EXPECT_EQ(second.samples, large);
}

TEST_F(Staging, ABatchThatNobodyAskedForGivesWay) {
    BatchStaging staging(device, steps);
    staging.begin(parts_of(one, target), 1);
    Step step(3);
    EXPECT_FALSE(step.run(staging, steps, 0));
    EXPECT_FALSE(step.run(staging, steps, 3));
    staging.begin(parts_of(other, target), 2);
    EXPECT_FALSE(step.run(staging, steps, 1)) << "replaced";
    EXPECT_TRUE(step.run(staging, steps, 2));
    EXPECT_FALSE(step.run(staging, steps, 2)) << "once";
    steps.synchronize();
    EXPECT_EQ(step.samples, other);
}

TEST_F(Staging, WithoutMemoryNothingIsCopiedAhead) {
    test::SmallDevice small(1000);
    const auto stream = small.create_stream();
    BatchStaging staging(small, *stream);
    testing::internal::CaptureStderr();
    staging.begin(parts_of(large, Values(500)), 1);
    staging.begin(parts_of(large, Values(500)), 2);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("not copied ahead"), std::string::npos);
    EXPECT_EQ(said.find("not copied ahead"), said.rfind("not copied ahead")) << "said once";
    EXPECT_TRUE(staging.take(2).empty());
    staging.begin(parts_of(one, target), 3);
    EXPECT_FALSE(staging.take(3).empty()) << "a smaller one has room";
}

}  // namespace
}  // namespace cohort
