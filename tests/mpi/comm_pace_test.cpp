// Pacing: what a rank sends or receives takes as long as its rate says, in proportion.
#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ring_rounds.hpp"
#include "support/core/patience.hpp"

namespace cohort {
namespace {

using test::kPatience;
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

/// Rank 1 sends `bytes` to rank 0; seconds until they were there and all ranks know.
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
    meet();
    const double seconds = now() - start;
    world.messenger().set_sink(Port::kServer, nullptr);
    return seconds;
}

/// The same by all ranks: whether `enough` holds on each.
bool all_have(bool enough) {
    std::string nothing;
    return test_world().agree(enough ? ExitCode::kDone : ExitCode::kPeer, nothing) ==
           ExitCode::kDone;
}

/// Seconds at two paces, the slow one a quarter of the fast one. Whatever else runs on this machine
/// makes both longer and never shorter, so they are the shortest of some tries.
struct TwoPaces {
    static constexpr int kTries = 10;

    template <class Fast, class Slow>
    TwoPaces(const Fast& fast_one, const Slow& slow_one) {
        for (int tries = 0; tries < kTries; ++tries) {
            fast = std::min(fast, fast_one());
            slow = std::min(slow, slow_one());
            if (all_have(slow / fast > kLeast && slow / fast < kMost)) {
                return;
            }
        }
    }
    void check(double bytes, double fast_pace, double slow_pace) const {
        EXPECT_GT(fast, bytes / fast_pace);
        EXPECT_GT(slow, bytes / slow_pace);
        EXPECT_GT(slow / fast, kLeast);
        EXPECT_LT(slow / fast, kMost);
    }

    static constexpr double kLeast = 1.5;
    static constexpr double kMost = 7;
    double fast = std::numeric_limits<double>::infinity();
    double slow = std::numeric_limits<double>::infinity();
};

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
        const TwoPaces seconds([&] { return send_block_paced(slow, 60e6, kBytes); },
                               [&] { return send_block_paced(slow, 15e6, kBytes); });
        // A chunk of 1 MB goes at once, and 10 ms may be caught up.
        seconds.check(0.9 * (kBytes - (1 << 20)), 60e6, 15e6);
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
            SCOPED_TRACE(word_of(algorithm));
            const TwoPaces seconds([&] { return ring_seconds(algorithm, nodes, 8e6); },
                                   [&] { return ring_seconds(algorithm, nodes, 2e6); });
            // The last message of each direction has left before its time is over.
            seconds.check(0.5 * bytes, 8e6, 2e6);
        }
    }
}

}  // namespace
}  // namespace cohort
