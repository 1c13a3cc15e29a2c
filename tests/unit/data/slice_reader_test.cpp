#include "cohort/data/order.hpp"

#include <gtest/gtest.h>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/data/lease.hpp"
#include "support/data/memory_source.hpp"

namespace cohort {
namespace {

constexpr OrderOptions kOrder{.seed = 11, .window_chunks = 3};

SampleSetInfo small_set() {
    return test::set_info({1, 2, 2}, SampleType::kU8, 103, 8);
}

TEST(SliceReader, GivesWhatTheBookLeases) {
    LeaseLedger book(small_set(), kOrder, 3 * 103);
    LeaseLedger positions(small_set(), kOrder, 3 * 103);
    SliceReader reader(small_set(), kOrder);
    while (const std::optional<Lease> lease = book.take(16)) {
        const std::optional<LeasedSlice> slice = positions.take_slice(16);
        ASSERT_TRUE(slice);
        EXPECT_EQ(slice->id, lease->id);
        EXPECT_EQ(slice->slice, (LeaseSlice{lease->epoch, lease->position, lease->size()}));
        EXPECT_EQ(reader.samples(slice->slice), lease->samples);
        EXPECT_TRUE(book.mark_applied(lease->id));
        EXPECT_TRUE(positions.mark_applied(slice->id));
        EXPECT_FALSE(positions.mark_applied(slice->id)) << "no longer outstanding";
    }
    EXPECT_TRUE(positions.finished());
    EXPECT_FALSE(positions.take_slice(16));
}

TEST(SliceReader, OrderOfTheQuestionsPlaysNoPart) {
    const std::int64_t samples = small_set().samples;
    SliceReader rising(small_set(), kOrder);
    std::vector<std::vector<std::int64_t>> epochs;
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
        epochs.push_back(rising.samples({epoch, 0, samples}));
    }
    SliceReader reader(small_set(), kOrder);
    Rng rng(4, RngPurpose::kTest);
    for (int i = 0; i < 500; ++i) {
        const std::uint32_t epoch = rng.next_below(3);
        const std::int64_t position = rng.next_below(static_cast<std::uint32_t>(samples));
        const std::int64_t count =
            1 + rng.next_below(static_cast<std::uint32_t>(samples - position));
        const auto first = epochs[epoch].begin() + position;
        EXPECT_EQ(reader.samples({epoch, position, count}),
                  std::vector<std::int64_t>(first, first + count));
    }
}

TEST(SliceReader, SlicesOutsideTheEpochAreErrors) {
    SliceReader reader(small_set(), kOrder);
    EXPECT_EQ(reader.samples({5, 102, 1}).size(), 1U);
    EXPECT_THROW((void)reader.samples({0, 103, 1}), UsageError);
    EXPECT_THROW((void)reader.samples({0, 102, 2}), UsageError);
    EXPECT_THROW((void)reader.samples({0, -1, 2}), UsageError);
    EXPECT_THROW((void)reader.samples({0, 5, 0}), UsageError);
    EXPECT_THROW((void)reader.samples({0, 5, INT64_MAX}), UsageError);
}

}  // namespace
}  // namespace cohort
