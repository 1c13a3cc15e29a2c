// A world of one process without MPI: the paths of the communication thread that do not need it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "cohort/comm/world.hpp"
#include "cohort/core/error.hpp"
#include "comm/base/host_connections.hpp"
#include "support/core/patience.hpp"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using test::kPatience;

class OneBuffer final : public TransferSink {
public:
    std::span<std::byte> accept(const Message&, std::uint64_t bytes) override {
        memory.resize(bytes);
        return memory;
    }
    std::vector<std::byte> memory;
};

TEST(Mailboxes, AClosedOneEndsAWait) {
    Mailbox mailbox;
    mailbox.put({.from = {}, .kind = 7, .body = {}});
    EXPECT_EQ(mailbox.receive(milliseconds(0))->kind, 7);
    std::thread closer([&mailbox] {
        std::this_thread::sleep_for(milliseconds(20));
        mailbox.close("rank 0 has died");
        mailbox.close("another reason");
    });
    try {
        (void)mailbox.receive(kPatience);
        ADD_FAILURE() << "nothing came";
    } catch (const WorldLost& lost) {
        EXPECT_STREQ(lost.what(), "rank 0 has died");
    }
    closer.join();
    mailbox.put({.from = {}, .kind = 8, .body = {}});
    EXPECT_THROW((void)mailbox.receive(milliseconds(0)), WorldLost) << "what comes later is lost";
}

TEST(HostConnections, AHostHasClosedThemOnceNoneOfThoseSeenIsLeft) {
    HostConnections hosts({{}, {"10.1.0.1", "10.2.0.1"}, {"10.1.0.2"}});
    hosts.look();
    EXPECT_FALSE(hosts.closed(1)) << "there was none";
    tcp_connections().seen(1000, "10.1.0.1");
    tcp_connections().seen(1001, "10.2.0.1");
    hosts.look();
    EXPECT_FALSE(hosts.closed(1));
    tcp_connections().ended(1000);
    EXPECT_FALSE(hosts.closed(1)) << "one is left, to another address";
    tcp_connections().ended(1001);
    EXPECT_TRUE(hosts.closed(1));
    EXPECT_FALSE(hosts.closed(2));
    EXPECT_FALSE(hosts.closed(0)) << "the own host";
    HostConnections next({{}, {"10.1.0.1", "10.2.0.1"}});
    next.look();
    EXPECT_FALSE(next.closed(1)) << "what ended before is not its own";
}

TEST(Alone, IsAWorldOfOneWorker) {
    World world({.alone = true});
    EXPECT_EQ(world.size(), 1);
    EXPECT_EQ(world.rank(), 0);
    EXPECT_EQ(world.role(), Role::kWorker);
    std::string message = "as it was";
    EXPECT_EQ(world.agree(ExitCode::kInput, message), ExitCode::kInput);
    EXPECT_EQ(message, "as it was");
    world.finalize();
    world.finalize();  // a second time does nothing
}

TEST(Alone, TransfersInBothOrdersStepByStep) {
    World world({.chunk_bytes = 1000, .alone = true});
    OneBuffer sink;
    world.messenger().set_sink(Port::kServer, &sink);
    for (const ChunkOrder order : {ChunkOrder::kForward, ChunkOrder::kBackward}) {
        for (const std::size_t size : {0, 1, 999, 1000, 1001, 54321}) {
            std::vector<std::byte> data(size, std::byte{7});
            const auto transfer =
                world.messenger().start_transfer({.rank = 0, .port = Port::kServer}, Port::kWorker,
                                                 5, {std::byte{1}}, data, order, nullptr);
            for (std::size_t released = 0; released < size;) {
                released = std::min(size, released + 777);
                transfer->release(released);
            }
            const auto message = world.messenger().mailbox(Port::kServer).receive(kPatience);
            ASSERT_TRUE(message);
            EXPECT_EQ(message->kind, 5);
            EXPECT_TRUE(transfer->done());
            EXPECT_EQ(sink.memory, data);
        }
    }
    world.finalize();
}

TEST(Alone, ATransferWaitsForItsRelease) {
    World world({.chunk_bytes = 100, .alone = true});
    OneBuffer sink;
    world.messenger().set_sink(Port::kWorker, &sink);
    const std::vector<std::byte> data(250, std::byte{3});
    const auto transfer =
        world.messenger().start_transfer({.rank = 0, .port = Port::kWorker}, Port::kWorker, 1, {},
                                         data, ChunkOrder::kForward, nullptr);
    transfer->release(249);
    EXPECT_FALSE(world.messenger().mailbox(Port::kWorker).receive(Clock::Seconds(0.05)));
    EXPECT_FALSE(transfer->done());
    transfer->release(250);
    EXPECT_TRUE(world.messenger().mailbox(Port::kWorker).receive(kPatience));
    world.finalize();
}

TEST(Alone, ManyThreadsSendInTheirOwnOrder) {
    World world({.alone = true});
    constexpr int kThreads = 4;
    constexpr std::uint16_t kEach = 500;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&world, t] {
            for (std::uint16_t i = 0; i < kEach; ++i) {
                world.messenger().send({.rank = 0, .port = Port::kWorker}, Port::kWorker, i,
                                       {static_cast<std::byte>(t)});
            }
        });
    }
    std::vector<std::uint16_t> next(kThreads, 0);
    for (int i = 0; i < kThreads * kEach; ++i) {
        const auto message = world.messenger().mailbox(Port::kWorker).receive(kPatience);
        ASSERT_TRUE(message);
        EXPECT_EQ(message->kind, next[static_cast<std::size_t>(message->body[0])]++);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    world.finalize();
}

TEST(Alone, RefusesOptionsThatCannotBeUsed) {
    EXPECT_THROW(World({.servers = 1, .alone = true}), UsageError);
    EXPECT_THROW(World({.stall_limit_s = 0, .alone = true}), UsageError);
    EXPECT_THROW(World({.lost_after_s = -1, .alone = true}), UsageError);
    EXPECT_THROW(World({.chunk_bytes = 0, .alone = true}), UsageError);
}

TEST(AloneDeathTest, AbortLeavesARecordAndEndsWithTheCode) {
    EXPECT_EXIT(
        {
            World world({.alone = true});
            world.on_failure([](ExitCode, const std::string& reason, bool) {
                std::fprintf(stderr, "recorded: %s\n", reason.c_str());
            });
            world.abort(ExitCode::kDevice, "the device is gone");
        },
        testing::ExitedWithCode(5), "recorded: the device is gone");
}

TEST(AloneDeathTest, AWaitThatNeverEndsEndsTheJob) {
    EXPECT_EXIT(
        {
            World world({.stall_limit_s = 0.2, .alone = true});
            const auto wait =
                world.operations().begin("parameters", 7, [] { return std::vector{0}; });
            std::this_thread::sleep_for(kPatience);
        },
        testing::ExitedWithCode(4), "waiting for parameters \\(#7\\) .*missing rank 0");
}

}  // namespace
}  // namespace cohort
