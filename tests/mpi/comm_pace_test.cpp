// Pacing: what a rank sends or receives takes as long as its rate says, in proportion.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ring_rounds.hpp"

namespace cohort {
namespace {

constexpr Clock::Seconds kPatience{30};
constexpr std::int64_t kFloats = 400'000;

class OneBlock final : public TransferSink {
public:
    std::span<std::byte> accept(const Message&, std::uint64_t bytes) override {
        memory_.resize(bytes);
        return memory_;
    }

private:
    std::vector<std::byte> memory_;
};

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

void meet() {
    std::string nothing;
    ASSERT_EQ(test_world().agree(ExitCode::kDone, nothing), ExitCode::kDone);
}

/// Rank 1 sends `bytes` to rank 0; seconds until they were there, on rank 0.
double send_block(std::size_t bytes) {
    World& world = test_world();
    const std::vector<std::byte> data(bytes);
    OneBlock sink;
    world.messenger().set_sink(Port::kServer, &sink);
    meet();
    const double start = now();
    if (world.rank() == 1) {
        const auto transfer = world.messenger().start_transfer(
            {0, Port::kServer}, Port::kWorker, 1, {}, data, ChunkOrder::kForward, nullptr);
        transfer->release(bytes);
        while (!transfer->done()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    if (world.rank() == 0) {
        EXPECT_TRUE(world.messenger().mailbox(Port::kServer).receive(kPatience));
    }
    const double seconds = now() - start;
    meet();
    world.messenger().set_sink(Port::kServer, nullptr);
    return seconds;
}

double send_block_paced(int rank, double pace, std::size_t bytes) {
    if (test_world().rank() == rank) {
        test_world().messenger().set_pace(pace);
    }
    const double seconds = send_block(bytes);
    test_world().messenger().set_pace(0);
    return seconds;
}

TEST(Pace, ATransferTakesItsTimeWhoeverIsSlow) {
    constexpr std::size_t kBytes = 16 << 20;
    static_cast<void>(send_block(kBytes));
    for (const int slow : {0, 1}) {
        const double fast = send_block_paced(slow, 60e6, kBytes);
        const double slowly = send_block_paced(slow, 15e6, kBytes);
        if (test_world().rank() == 0) {
            // A chunk of 1 MB goes at once, and 10 ms may be caught up.
            EXPECT_GT(fast, 0.9 * (kBytes - (1 << 20)) / 60e6);
            EXPECT_GT(slowly, 0.9 * (kBytes - (1 << 20)) / 15e6);
            EXPECT_GT(slowly / fast, 1.5);
            EXPECT_LT(slowly / fast, 7);
        }
    }
}

double ring_seconds(AllReduceAlgorithm algorithm, const std::vector<int>& nodes, double pace) {
    World& world = test_world();
    const auto ranks = all_ranks();
    const auto ring = make_all_reduce(
        world, ranks, kFloats, {.algorithm = algorithm, .bucket_bytes = 256 << 10, .nodes = nodes});
    static_cast<void>(run_round(*ring, 1, exact_value, false));
    if (world.rank() == 1) {
        world.messenger().set_pace(pace);
    }
    meet();
    const double start = now();
    const auto sums = run_round(*ring, 2, exact_value, true);
    const double seconds = now() - start;
    EXPECT_EQ(sums, serial_sum(ranks, kFloats, 2, exact_value));
    meet();
    world.messenger().set_pace(0);
    return seconds;
}

TEST(Pace, ARoundTakesWhatItsSlowestLinkTakes) {
    std::vector<int> apart = all_ranks();
    const auto members = static_cast<double>(apart.size());
    const double bytes = 2 * (members - 1) / members * 4 * kFloats;  // of each member
    for (const auto algorithm :
         {AllReduceAlgorithm::kRing, AllReduceAlgorithm::kOrdered, AllReduceAlgorithm::kMpi}) {
        for (const auto& nodes : {std::vector<int>{}, apart}) {
            const double fast = ring_seconds(algorithm, nodes, 8e6);
            const double slow = ring_seconds(algorithm, nodes, 2e6);
            // The last message of each direction has left before its time is over.
            EXPECT_GT(fast, 0.5 * bytes / 8e6) << word_of(algorithm);
            EXPECT_GT(slow, 0.5 * bytes / 2e6) << word_of(algorithm);
            EXPECT_GT(slow / fast, 1.5) << word_of(algorithm);
            EXPECT_LT(slow / fast, 7) << word_of(algorithm);
        }
    }
}

}  // namespace
}  // namespace cohort
