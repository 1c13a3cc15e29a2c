// Sums of the own ring with bf16 between nodes: the same bits on all members, nothing lost over
// rounds, half the bytes.
#include <cmath>
#include <cstring>

#include "cohort/core/error.hpp"
#include "mpi/ring_rounds.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kFloats = 9001;

/// Every member on a node of its own, or two on each.
std::vector<int> nodes_of(std::size_t members, int per_node) {
    std::vector<int> nodes;
    for (std::size_t i = 0; i < members; ++i) {
        nodes.push_back(static_cast<int>(i) / per_node);
    }
    return nodes;
}

AllReduceOptions options_of(Wire wire, int per_node = 1) {
    return {.algorithm = AllReduceAlgorithm::kAuto,
            .bucket_bytes = 4096,
            .nodes = nodes_of(all_ranks().size(), per_node),
            .wire = wire};
}

float zero_value(int /*rank*/, std::int64_t /*index*/, std::uint64_t /*round*/) {
    return 0;
}

/// Fails unless all ranks have these values, bit for bit.
void expect_same_on_all_ranks(const std::vector<float>& values) {
    std::vector<std::uint16_t> halves(2 * values.size());
    std::memcpy(halves.data(), values.data(), values.size() * sizeof(float));
    const auto ring =
        make_all_reduce(test_world(), all_ranks(), static_cast<std::int64_t>(halves.size()), {});
    const std::span<float> buffer = ring->begin(1);
    std::ranges::copy(halves, buffer.begin());
    ring->finish(own_summary(1));
    ASSERT_TRUE(ring->wait().has_value());
    const auto members = static_cast<float>(all_ranks().size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < halves.size(); ++i) {
        different += buffer[i] != static_cast<float>(halves[i]) * members ? 1 : 0;
    }
    EXPECT_EQ(different, 0U);
}

void add(std::vector<double>& sum, const std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        sum[i] += values[i];
    }
}

/// Largest difference, as a share of how large the values may be.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        most = std::max(most, std::abs(a[i] - b[i]) / std::ldexp(1.0, static_cast<int>(i % 17)));
    }
    return most;
}

TEST(RingWire, WholeNumbersThatItHoldsAreExact) {
    const std::vector<int> members = all_ranks();
    for (const int per_node : {1, 2}) {
        for (const std::int64_t floats : {1, 2, 17, 1000, 70001}) {
            const auto ring =
                make_all_reduce(test_world(), members, floats, options_of(Wire::kBf16, per_node));
            for (std::uint64_t round = 1; round <= 3; ++round) {
                EXPECT_EQ(run_round(*ring, round, exact_value, round == 2),
                          serial_sum(members, floats, round, exact_value));
            }
        }
    }
}

TEST(RingWire, LargeBucketsOfManyChunks) {
    const std::vector<int> members = all_ranks();
    AllReduceOptions options = options_of(Wire::kBf16);
    options.bucket_bytes = 3 << 20;
    const auto ring = make_all_reduce(test_world(), members, 1'000'003, options);
    for (std::uint64_t round = 1; round <= 2; ++round) {
        EXPECT_EQ(run_round(*ring, round, exact_value, true),
                  serial_sum(members, 1'000'003, round, exact_value));
    }
}

TEST(RingWire, AllMembersHaveTheSameBitsAndRunsRepeatThem) {
    const std::vector<int> members = all_ranks();
    std::vector<std::vector<float>> before;
    for (int run = 0; run < 2; ++run) {
        const auto ring = make_all_reduce(test_world(), members, kFloats, options_of(Wire::kBf16));
        for (std::uint64_t round = 1; round <= 4; ++round) {
            const std::vector<float> sum = run_round(*ring, round, rough_value, true);
            expect_same_on_all_ranks(sum);
            if (run == 0) {
                before.push_back(sum);
            } else {
                EXPECT_EQ(sum, before[round - 1]);
            }
        }
    }
}

/// One round's sums are off by what they were rounded by; over rounds nothing is lost.
TEST(RingWire, SumsOfRoundsAddUp) {
    const std::vector<int> members = all_ranks();
    const auto ring = make_all_reduce(test_world(), members, kFloats, options_of(Wire::kBf16));
    std::vector<double> got(kFloats);
    std::vector<double> want(kFloats);
    constexpr std::uint64_t kRounds = 40;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        add(got, run_round(*ring, round, rough_value, true));
        add(want, serial_sum(members, kFloats, round, rough_value));
    }
    if (members.size() > 1) {
        EXPECT_GT(difference(got, want), 1e-5) << "nothing is rounded";
    }
    // The last round's rests: half a unit of numbers below `members`, at every member.
    const auto count = static_cast<double>(members.size());
    EXPECT_LT(difference(got, want), count * count / 256);
    for (std::uint64_t round = kRounds + 1; round <= kRounds + 8; ++round) {
        add(got, run_round(*ring, round, zero_value, false));  // the rests of the rests, and so on
    }
    EXPECT_LT(difference(got, want), 1e-5 * kRounds);
}

TEST(RingWire, TheRestOfARoundThatIsNotUsedIsReturned) {
    const std::vector<int> members = all_ranks();
    const auto with = make_all_reduce(test_world(), members, kFloats, options_of(Wire::kBf16));
    const auto without = make_all_reduce(test_world(), members, kFloats, options_of(Wire::kBf16));
    for (std::uint64_t round = 1; round <= 3; ++round) {
        const std::vector<float> sum = run_round(*without, round, rough_value, false);
        EXPECT_EQ(run_round(*with, 10 * round, rough_value, false).size(), sum.size());
        with->set_rest(RoundRest::kReturned);
        EXPECT_EQ(run_round(
                      *with, 10 * round + 1,
                      [](int rank, std::int64_t index, std::uint64_t r) {
                          return rough_value(rank, index, r / 10);
                      },
                      false),
                  sum);
    }
}

TEST(RingWire, AForgottenRestIsNotAdded) {
    const std::vector<int> members = all_ranks();
    const auto ring = make_all_reduce(test_world(), members, kFloats, options_of(Wire::kBf16));
    const std::vector<float> zeros(kFloats);
    static_cast<void>(run_round(*ring, 1, rough_value, false));
    ring->set_rest(RoundRest::kForgotten);
    EXPECT_EQ(run_round(*ring, 2, zero_value, false), zeros);
    static_cast<void>(run_round(*ring, 3, rough_value, false));
    if (members.size() > 1) {
        EXPECT_NE(run_round(*ring, 4, zero_value, false), zeros);
    }
}

TEST(RingWire, MovesHalfTheBytes) {
    const std::vector<int> members = all_ranks();
    const auto sent = [&](Wire wire) {
        AllReduceOptions options = options_of(wire);
        options.algorithm = AllReduceAlgorithm::kRing;
        options.bucket_bytes = 1 << 20;
        const auto ring = make_all_reduce(test_world(), members, 1 << 20, options);
        const std::uint64_t before = test_world().messenger().counters().bytes_sent;
        static_cast<void>(run_round(*ring, 1, exact_value, false));
        return static_cast<double>(test_world().messenger().counters().bytes_sent - before);
    };
    const double f32 = sent(Wire::kF32);
    const double bf16 = sent(Wire::kBf16);
    if (members.size() > 1) {
        EXPECT_NEAR(bf16 / f32, 0.5, 0.02);
    }
}

TEST(RingWire, OtherAlgorithmsRefuseIt) {
    for (const AllReduceAlgorithm algorithm :
         {AllReduceAlgorithm::kOrdered, AllReduceAlgorithm::kMpi, AllReduceAlgorithm::kNccl}) {
        AllReduceOptions options = options_of(Wire::kBf16);
        options.algorithm = algorithm;
        EXPECT_THROW(
            static_cast<void>(make_all_reduce(test_world(), all_ranks(), kFloats, options)),
            UsageError);
    }
}

}  // namespace
}  // namespace cohort
