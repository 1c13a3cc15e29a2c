// Sums of every algorithm, size and placement of ranks on nodes.
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "mpi/ring_rounds.hpp"

namespace cohort {
namespace {

using enum AllReduceAlgorithm;

void make_ring(World& world, std::vector<int> members, std::int64_t floats,
               const AllReduceOptions& options) {
    static_cast<void>(make_all_reduce(world, std::move(members), floats, options));
}

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want) {
    ASSERT_EQ(got.size(), want.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::memcmp(&got[i], &want[i], sizeof(float)) != 0 && wrong++ < 3) {
            ADD_FAILURE() << "at " << i << ": " << got[i] << " instead of " << want[i];
        }
    }
    EXPECT_EQ(wrong, 0U);
}

class RingSums : public testing::TestWithParam<AllReduceAlgorithm> {};

TEST_P(RingSums, ExactForEverySizeAndPlacement) {
    const std::vector<int> members = all_ranks();
    for (const Placement& placement : placements()) {
        for (const std::int64_t floats : {1, 2, 3, 16, 17, 1000, 4097, 70001}) {
            SCOPED_TRACE(std::string(placement.name) + ", floats " + std::to_string(floats));
            const auto ring = make_all_reduce(test_world(), members, floats,
                                              {GetParam(), 4096, placement.nodes(members.size())});
            for (std::uint64_t round = 1; round <= 3; ++round) {
                expect_same_bits(run_round(*ring, round, exact_value, round == 2),
                                 serial_sum(members, floats, round, exact_value));
            }
        }
    }
}

TEST_P(RingSums, ManyRoundsWithBucketsReadyInRandomOrder) {
    const std::vector<int> members = all_ranks();
    const std::int64_t floats = 5000;
    for (const Placement& placement : placements()) {
        SCOPED_TRACE(placement.name);
        const auto ring = make_all_reduce(test_world(), members, floats,
                                          {GetParam(), 1024, placement.nodes(members.size())});
        for (std::uint64_t round = 5; round < 300; round += 2 + round % 5) {
            std::vector<TestSummary> summaries;
            expect_same_bits(run_round(*ring, round, exact_value, true, &summaries),
                             serial_sum(members, floats, round, exact_value));
            ASSERT_EQ(summaries.size(), members.size());
            for (std::size_t i = 0; i < summaries.size(); ++i) {
                EXPECT_EQ(summaries[i].number, members[i] + 10 * static_cast<std::int64_t>(round));
                EXPECT_EQ(summaries[i].fraction, members[i] * 0.5);
            }
        }
    }
}

TEST_P(RingSums, SegmentsOfManyChunks) {
    const std::vector<int> members = all_ranks();
    const std::int64_t floats = 1'000'003;
    for (const Placement& placement : placements()) {
        SCOPED_TRACE(placement.name);
        const auto ring = make_all_reduce(test_world(), members, floats,
                                          {GetParam(), 3 << 20, placement.nodes(members.size())});
        expect_same_bits(run_round(*ring, 1, exact_value, true),
                         serial_sum(members, floats, 1, exact_value));
        expect_same_bits(run_round(*ring, 2, exact_value, false),
                         serial_sum(members, floats, 2, exact_value));
    }
}

TEST_P(RingSums, SubsetsAndOtherOrdersOfRanks) {
    const int ranks = test_world().size();
    std::vector<std::vector<int>> sets;
    for (int skipped = 0; skipped < ranks; ++skipped) {
        std::vector<int> members;
        for (int rank = ranks - 1; rank >= 0; --rank) {
            if (rank != skipped || ranks == 1) {
                members.push_back(rank);
            }
        }
        sets.push_back(members);
    }
    for (const std::vector<int>& members : sets) {
        if (std::find(members.begin(), members.end(), test_world().rank()) == members.end()) {
            continue;
        }
        for (const Placement& placement : placements()) {
            SCOPED_TRACE(placement.name);
            const auto ring = make_all_reduce(test_world(), members, 3001,
                                              {GetParam(), 4096, placement.nodes(members.size())});
            expect_same_bits(run_round(*ring, 1, exact_value, true),
                             serial_sum(members, 3001, 1, exact_value));
        }
    }
}

TEST_P(RingSums, CloseToTheSerialSumForAnyValues) {
    const std::vector<int> members = all_ranks();
    const auto ring = make_all_reduce(test_world(), members, 20000,
                                      {GetParam(), 16384, placements()[2].nodes(members.size())});
    const std::vector<float> got = run_round(*ring, 1, rough_value, true);
    const std::vector<float> want = serial_sum(members, 20000, 1, rough_value);
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 1e-5 * std::ldexp(1.0, static_cast<int>(i % 17)));
    }
}

std::string name_of(const testing::TestParamInfo<AllReduceAlgorithm>& info) {
    return std::string(word_of(info.param));
}
INSTANTIATE_TEST_SUITE_P(Algorithms, RingSums, testing::Values(kRing, kOrdered, kMpi, kAuto),
                         name_of);

/// Rounds as short as they come, now this and now that member late: the next round begins while
/// messages of this one are still to be sent.
TEST_P(RingSums, ThousandsOfTinyRoundsInARow) {
    const std::vector<int> members = all_ranks();
    for (const Placement& placement : placements()) {
        SCOPED_TRACE(placement.name);
        const auto ring = make_all_reduce(test_world(), members, 40,
                                          {GetParam(), 4096, placement.nodes(members.size())});
        for (std::uint64_t round = 1; round <= 250; ++round) {
            const std::span<float> buffer = ring->begin(round);
            std::fill(buffer.begin(), buffer.end(), 1.0F);
            if ((round * 7919 + static_cast<unsigned>(test_world().rank()) * 104729U) % 7 == 0) {
                std::this_thread::sleep_for(std::chrono::microseconds(round % 300));
            }
            ring->finish(own_summary(round));
            (void)ring->wait().value();
            ASSERT_EQ(buffer[7], static_cast<float>(members.size())) << round;
        }
    }
}

TEST(RingOrdered, EqualsTheSerialSumBitForBitWhereverTheRanksAre) {
    const std::vector<int> members = all_ranks();
    for (const Placement& placement : placements()) {
        SCOPED_TRACE(placement.name);
        for (const std::int64_t floats : {5, 20011}) {
            const auto ring = make_all_reduce(test_world(), members, floats,
                                              {kOrdered, 8192, placement.nodes(members.size())});
            for (std::uint64_t round = 1; round <= 4; ++round) {
                expect_same_bits(run_round(*ring, round, rough_value, round > 2),
                                 serial_sum(members, floats, round, rough_value));
            }
        }
    }
}

TEST(RingOneNode, SumsInMemberOrderBitForBit) {
    const std::vector<int> members = all_ranks();
    const auto ring = make_all_reduce(test_world(), members, 50000, {kRing, 32768, {}});
    expect_same_bits(run_round(*ring, 1, rough_value, true),
                     serial_sum(members, 50000, 1, rough_value));
}

TEST(AllReduce, SumsStayWhileTheNextRoundRuns) {
    const std::vector<int> members = all_ranks();
    const auto ring = make_all_reduce(test_world(), members, 999, {kRing, 1024, {}});
    const std::span<float> first = ring->begin(1);
    std::fill(first.begin(), first.end(), 1.0F);
    ring->finish({});
    static_cast<void>(ring->wait());
    static_cast<void>(run_round(*ring, 2, exact_value, true));
    for (const float value : first) {
        ASSERT_EQ(value, static_cast<float>(members.size()));
    }
}

TEST(AllReduce, GoesOnAfterARoundOfNumbersThatAreNotFinite) {
    const std::vector<int> members = all_ranks();
    const auto ring = make_all_reduce(test_world(), members, 100, {kRing, 64, {}});
    std::span<float> buffer = ring->begin(3);
    std::fill(buffer.begin(), buffer.end(), std::nanf(""));
    ring->finish(own_summary(3));
    const auto summaries = unpack_summaries<TestSummary>(ring->wait()).value();
    EXPECT_EQ(summaries[0].number, 30 + members[0]);
    expect_same_bits(run_round(*ring, 9, exact_value, false),
                     serial_sum(members, 100, 9, exact_value));
}

TEST(AllReduce, TimesAreThoseOfTheRound) {
    const auto ring = make_all_reduce(test_world(), all_ranks(), 100000, {kRing, 65536, {}});
    static_cast<void>(run_round(*ring, 1, exact_value, true));
    const AllReduceTimes times = ring->times();
    EXPECT_GE(times.exchange_s, times.exposed_s * 0.999);
    EXPECT_GE(times.exposed_s, 0);
}

TEST(AllReduce, RefusesWhatCannotBe) {
    World& world = test_world();
    EXPECT_THROW(make_ring(world, {world.size()}, 10, {}), UsageError);
    EXPECT_THROW(make_ring(world, {}, 10, {}), UsageError);
    EXPECT_THROW(make_ring(world, {world.rank(), world.rank()}, 10, {}), UsageError);
    EXPECT_THROW(make_ring(world, {world.rank()}, 0, {}), UsageError);
    EXPECT_THROW(static_cast<void>(parse_all_reduce("fast")), UsageError);
    EXPECT_EQ(parse_all_reduce("ordered"), kOrdered);
    if (world.size() > 1) {
        EXPECT_THROW(make_ring(world, {(world.rank() + 1) % world.size()}, 10, {}), UsageError);
    }
    const auto ring = make_all_reduce(world, {world.rank()}, 10, {});
    static_cast<void>(ring->begin(1));
    EXPECT_THROW(ring->ready(5, 11), UsageError);
}

TEST(AllReduce, MembersThatDisagreeAreTold) {
    World& world = test_world();
    if (world.size() == 1) {
        return;  // nobody to disagree with
    }
    EXPECT_THROW(make_ring(world, all_ranks(), 10 + world.rank(), {kRing, 1024, {}}), UsageError);
}

TEST(AllReduce, MembersThatWantAnotherAlgorithmAreTold) {
    World& world = test_world();
    if (world.size() == 1) {
        return;  // nobody to disagree with
    }
    for (const AllReduceAlgorithm other :
         {kOrdered, AllReduceAlgorithm::kMpi, AllReduceAlgorithm::kAuto}) {
        try {
            const auto ring = make_all_reduce(world, all_ranks(), 10,
                                              {world.rank() == 1 ? other : kRing, 1024, {}});
            FAIL() << "members disagree on " << word_of(other);
        } catch (const UsageError& error) {
            EXPECT_NE(std::string(error.what()).find(word_of(other)), std::string::npos)
                << error.what();
        }
    }
}

struct Chosen {
    AllReduceAlgorithm algorithm = kAuto;
    std::string log;  ///< of the first member
};

Chosen chosen(const std::vector<int>& members, std::int64_t floats,
              const std::vector<int>& nodes = {}) {
    testing::internal::CaptureStderr();
    const auto ring = make_all_reduce(test_world(), members, floats, {kAuto, 4096, nodes});
    const std::string log = testing::internal::GetCapturedStderr();
    return {ring->algorithm(), test_world().rank() == members.front() ? log : "unknown"};
}

/// A ring that has lost a member goes on with what was measured before; a larger one measures, and
/// one on other nodes.
TEST(AllReduce, IsMeasuredOnceForAsManyMembersAndFewer) {
    const std::vector<int> all = all_ranks();
    if (all.size() < 3) {
        GTEST_SKIP() << "fewer than three ranks";
    }
    static std::int64_t bucket = 777;  // that no other test has, nor this one before
    const std::int64_t floats = bucket++;
    const auto measured = testing::AnyOf("unknown", testing::HasSubstr(": ring "));
    const auto known = testing::AnyOf("unknown", testing::HasSubstr("as measured before"));
    const int rank = test_world().rank();
    AllReduceAlgorithm of_pair = kAuto;
    if (rank < 2) {
        const Chosen pair = chosen({0, 1}, floats);
        EXPECT_THAT(pair.log, measured);
        of_pair = pair.algorithm;
    }
    if (rank == 1 || rank == 2) {  // which of them knows it first
        const Chosen pair = chosen({2, 1}, floats);
        EXPECT_THAT(pair.log, known);
        EXPECT_TRUE(pair.algorithm == of_pair || rank == 2);
    }
    const Chosen of_all = chosen(all, floats);
    EXPECT_THAT(of_all.log, measured) << "more members than two";
    if (rank < 2) {
        const Chosen pair = chosen({0, 1}, floats);
        EXPECT_THAT(pair.log, known);
        EXPECT_EQ(pair.algorithm, of_all.algorithm);
    }
    const Chosen again = chosen(all, floats);
    EXPECT_THAT(again.log, known) << "a smaller one in between is not forgotten for";
    EXPECT_EQ(again.algorithm, of_all.algorithm);
    EXPECT_THAT(chosen(all, floats, all).log, measured) << "each member on a node of its own";
}

TEST(AllReduce, MayEndRightAfterARound) {
    const std::vector<int> members = all_ranks();
    for (const Placement& placement : placements()) {
        for (const AllReduceAlgorithm algorithm : {kRing, kOrdered, AllReduceAlgorithm::kMpi}) {
            for (std::uint64_t repetition = 1; repetition <= 60; ++repetition) {
                const auto ring = make_all_reduce(test_world(), members, 40,
                                                  {algorithm, 64, placement.nodes(members.size())});
                expect_same_bits(run_round(*ring, repetition, exact_value, false),
                                 serial_sum(members, 40, repetition, exact_value));
            }
        }
    }
}

TEST(AllReduce, AllOfAWorldOfOne) {
    World& world = test_world();
    const auto ring = make_all_reduce(world, {world.rank()}, 77, {});
    std::vector<TestSummary> summaries;
    expect_same_bits(run_round(*ring, 4, exact_value, true, &summaries),
                     serial_sum({world.rank()}, 77, 4, exact_value));
    ASSERT_EQ(summaries.size(), 1U);
    EXPECT_EQ(summaries[0].number, world.rank() + 40);
}

}  // namespace
}  // namespace cohort
