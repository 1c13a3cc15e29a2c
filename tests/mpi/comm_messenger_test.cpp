#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "cohort/comm/world.hpp"
#include "support/comm/mpi_test.hpp"
#include "support/core/patience.hpp"

namespace cohort {
namespace {

using test::kPatience;
constexpr std::size_t kChunk = 1 << 20;  // the default of WorldOptions

/// Bytes that tell where they come from and where they belong.
std::vector<std::byte> pattern(std::size_t size, int seed) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] =
            static_cast<std::byte>((i * 7 + i / 251 + static_cast<std::size_t>(seed) * 31) & 0xff);
    }
    return bytes;
}

/// The transfers that arrive at one port, by sender and kind.
class Store final : public TransferSink {
public:
    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override {
        if (announcement.kind == kRefused) {
            return {};
        }
        auto& memory = memory_[{announcement.from.rank, announcement.kind}];
        memory.resize(bytes);
        return memory;
    }
    [[nodiscard]] const std::vector<std::byte>& of(int rank, int kind) {
        return memory_[{rank, static_cast<std::uint16_t>(kind)}];
    }
    static constexpr std::uint16_t kRefused = 999;

private:
    std::map<std::pair<int, std::uint16_t>, std::vector<std::byte>> memory_;
};

Message next(Port port) {
    auto message = test_world().messenger().mailbox(port).receive(kPatience);
    EXPECT_TRUE(message.has_value()) << "nothing came";
    return message.value_or(Message{});
}

void wait_until_done(const OutgoingTransfer& transfer) {
    while (!transfer.done()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

TEST(Messenger, MessagesOfEverySizeArriveInOrder) {
    World& world = test_world();
    const std::vector<std::size_t> sizes = {0, 1, 7, 4095, 4096, 100'000, 3, 5'000'001, 0, 64};
    for (int to = 0; to < world.size(); ++to) {
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            world.messenger().send({.rank = to, .port = Port::kWorker}, Port::kServer,
                                   static_cast<std::uint16_t>(i), pattern(sizes[i], world.rank()));
        }
    }
    std::map<int, std::size_t> seen;
    for (std::size_t i = 0; i < sizes.size() * static_cast<std::size_t>(world.size()); ++i) {
        const Message message = next(Port::kWorker);
        const std::size_t place = seen[message.from.rank]++;
        ASSERT_EQ(message.kind, place) << "from rank " << message.from.rank;
        EXPECT_EQ(message.from.port, Port::kServer);
        EXPECT_EQ(message.body, pattern(sizes[place], message.from.rank));
    }
}

TEST(Messenger, PortsAreApart) {
    World& world = test_world();
    const int right = (world.rank() + 1) % world.size();
    world.messenger().send({.rank = right, .port = Port::kCoordinator}, Port::kWorker, 1, {});
    world.messenger().send({.rank = right, .port = Port::kServer}, Port::kWorker, 2, {});
    EXPECT_EQ(next(Port::kServer).kind, 2);
    EXPECT_EQ(next(Port::kCoordinator).kind, 1);
}

TEST(Messenger, TransfersOfEverySizeInBothOrders) {
    World& world = test_world();
    Store store;
    world.messenger().set_sink(Port::kServer, &store);
    std::string nothing;
    ASSERT_EQ(world.agree(ExitCode::kDone, nothing), ExitCode::kDone);  // all sinks are set
    const std::vector<std::size_t> sizes = {0,      1,          4097,           kChunk - 1,
                                            kChunk, kChunk + 1, 3 * kChunk + 5, 9 * kChunk};
    const std::size_t kinds = 2 * sizes.size();
    std::vector<std::shared_ptr<OutgoingTransfer>> started;
    std::vector<std::vector<std::byte>> sent;
    for (std::size_t kind = 0; kind < kinds; ++kind) {
        sent.push_back(pattern(sizes[kind / 2], world.rank() + static_cast<int>(kind)));
    }
    for (int to = 0; to < world.size(); ++to) {
        for (std::size_t kind = 0; kind < kinds; ++kind) {
            started.push_back(world.messenger().start_transfer(
                {.rank = to, .port = Port::kServer}, Port::kWorker,
                static_cast<std::uint16_t>(kind), {std::byte{42}}, sent[kind],
                kind % 2 == 0 ? ChunkOrder::kForward : ChunkOrder::kBackward, nullptr));
            started.back()->release(sent[kind].size());
        }
    }
    for (std::size_t i = 0; i < kinds * static_cast<std::size_t>(world.size()); ++i) {
        const Message message = next(Port::kServer);
        ASSERT_EQ(message.body, std::vector<std::byte>{std::byte{42}});
        const auto expected = pattern(sizes[message.kind / 2], message.from.rank + message.kind);
        EXPECT_EQ(store.of(message.from.rank, message.kind), expected)
            << "kind " << message.kind << " from rank " << message.from.rank;
    }
    for (const auto& transfer : started) {
        wait_until_done(*transfer);
    }
    ASSERT_EQ(world.agree(ExitCode::kDone, nothing), ExitCode::kDone);
    world.messenger().set_sink(Port::kServer, nullptr);
}

TEST(Messenger, NothingLeavesBeforeItIsReleased) {
    World& world = test_world();
    Store store;
    world.messenger().set_sink(Port::kWorker, &store);
    std::string nothing;
    ASSERT_EQ(world.agree(ExitCode::kDone, nothing), ExitCode::kDone);
    const int right = (world.rank() + 1) % world.size();
    const int left = (world.rank() + world.size() - 1) % world.size();
    const std::size_t size = 5 * kChunk + 3;
    std::vector<std::byte> data(size);
    const auto whole = pattern(size, world.rank());
    const auto transfer =
        world.messenger().start_transfer({.rank = right, .port = Port::kWorker}, Port::kWorker, 1,
                                         {}, data, ChunkOrder::kBackward, nullptr);
    // Written from the end to the start; a chunk that left early would carry zeros.
    std::size_t ready = 0;
    while (ready < size) {
        EXPECT_FALSE(transfer->done());
        const std::size_t step = std::min<std::size_t>(700'000, size - ready);
        const std::size_t begin = size - ready - step;
        std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(begin), step,
                    data.begin() + static_cast<std::ptrdiff_t>(begin));
        ready += step;
        transfer->release(ready);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(next(Port::kWorker).from.rank, left);
    EXPECT_EQ(store.of(left, 1), pattern(size, left));
    wait_until_done(*transfer);
    ASSERT_EQ(world.agree(ExitCode::kDone, nothing), ExitCode::kDone);
    world.messenger().set_sink(Port::kWorker, nullptr);
}

TEST(Messenger, RefusedTransfersStillAnnounceAndManyShareTheWay) {
    World& world = test_world();
    Store store;
    world.messenger().set_sink(Port::kWorker, &store);
    std::string nothing;
    ASSERT_EQ(world.agree(ExitCode::kDone, nothing), ExitCode::kDone);
    constexpr int kMany = 24;
    const auto data = std::make_shared<const std::vector<std::byte>>(pattern(kChunk + 9, 3));
    std::vector<std::shared_ptr<OutgoingTransfer>> started;
    for (int to = 0; to < world.size(); ++to) {
        for (int i = 0; i < kMany; ++i) {
            const auto kind = i % 3 == 0 ? Store::kRefused : static_cast<std::uint16_t>(i);
            started.push_back(world.messenger().start_transfer({.rank = to, .port = Port::kWorker},
                                                               Port::kWorker, kind, {}, *data,
                                                               ChunkOrder::kForward, data));
            started.back()->release(data->size());
        }
    }
    int refused = 0;
    for (int i = 0; i < kMany * world.size(); ++i) {
        const Message message = next(Port::kWorker);
        if (message.kind == Store::kRefused) {
            ++refused;
        } else {
            EXPECT_EQ(store.of(message.from.rank, message.kind), *data);
        }
    }
    EXPECT_EQ(refused, world.size() * kMany / 3);
    for (const auto& transfer : started) {
        wait_until_done(*transfer);
    }
    EXPECT_EQ(data.use_count(), 1) << "a transfer that is done lets its owner go";
    ASSERT_EQ(world.agree(ExitCode::kDone, nothing), ExitCode::kDone);
    world.messenger().set_sink(Port::kWorker, nullptr);
}

TEST(Messenger, CountsWhatMovedBetweenRanks) {
    World& world = test_world();
    std::string nothing;
    const TrafficCounters before = world.messenger().counters();
    ASSERT_EQ(world.agree(ExitCode::kDone, nothing), ExitCode::kDone);
    const int right = (world.rank() + 1) % world.size();
    world.messenger().send({.rank = right, .port = Port::kWorker}, Port::kWorker, 1,
                           pattern(1000, 1));
    EXPECT_EQ(next(Port::kWorker).body.size(), 1000U);
    ASSERT_EQ(world.agree(ExitCode::kDone, nothing), ExitCode::kDone);
    const TrafficCounters after = world.messenger().counters();
    const std::uint64_t expected = world.size() > 1 ? 1000 : 0;
    EXPECT_GE(after.bytes_received - before.bytes_received, expected);
    EXPECT_GE(after.bytes_sent - before.bytes_sent, expected);
    EXPECT_LT(after.bytes_received - before.bytes_received, expected + 500);
    EXPECT_GE(after.cpu_seconds, before.cpu_seconds);
}

TEST(Messenger, AgreesOnTheWorst) {
    World& world = test_world();
    std::string message;
    EXPECT_EQ(world.agree(ExitCode::kDone, message), ExitCode::kDone);
    EXPECT_EQ(message, "");
    const bool last = world.rank() == world.size() - 1;
    message = last ? "no such file" : "";
    EXPECT_EQ(world.agree(last ? ExitCode::kInput : ExitCode::kDone, message), ExitCode::kInput);
    if (world.rank() == 0 && world.size() > 1) {
        EXPECT_EQ(message, "no such file (rank " + std::to_string(world.size() - 1) + ")");
    }
    message = "everywhere the same";
    EXPECT_EQ(world.agree(ExitCode::kUsage, message), ExitCode::kUsage);
    EXPECT_EQ(message, "everywhere the same");
}

TEST(World, MapsRanksHostsAndRoles) {
    World& world = test_world();
    const RankMap& map = world.map();
    EXPECT_EQ(map.nodes(), 1);
    EXPECT_EQ(static_cast<int>(map.on_node(0).size()), world.size());
    EXPECT_EQ(map.facts().size(), 1U);
    EXPECT_EQ(world.role(), Role::kWorker);
    for (int rank = 0; rank < map.size(); ++rank) {
        EXPECT_EQ(map.ranks[static_cast<std::size_t>(rank)].rank, rank);
        EXPECT_EQ(map.ranks[static_cast<std::size_t>(rank)].node_rank, rank);
        EXPECT_GT(map.ranks[static_cast<std::size_t>(rank)].pid, 0);
    }
}

}  // namespace
}  // namespace cohort
