// Rings that sum in device memory, with stand-ins for the GPU and for NCCL
// (support/comm/host_sums.hpp): what is tested is the engine, its set-up, its order of work and
// what it does about losses.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "comm/allreduce/back_ends.hpp"
#include "mpi/ring_rounds.hpp"
#include "support/comm/host_sums.hpp"

namespace cohort::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

/// A member: its device, the stream that it computes on, its engine.
class Member {
public:
    explicit Member(const std::string& place = "gpu of rank " + std::to_string(test_world().rank()))
        : library(place) {}

    void make(const std::vector<int>& members, std::int64_t floats, std::int64_t bucket_bytes) {
        buckets = Buckets(floats, bucket_bytes);
        exchange = make_device_all_reduce(setting(members, AllReduceAlgorithm::kNccl), device,
                                          stream, library);
    }
    /// As kAuto does.
    AllReduceAlgorithm choose(const std::vector<int>& members, std::int64_t floats) {
        buckets = Buckets(floats, 4096);
        const AllReduceSetting chosen = setting(members, AllReduceAlgorithm::kAuto);
        exchange = make_automatic_all_reduce(
            chosen, {.place = library.place(device), .error = ""},
            [&] { return make_device_all_reduce(chosen, device, stream, library); });
        return exchange->algorithm();
    }

    /// One round; every part is written late, in the order of the stream. @return what the stream
    /// sees in the buffer after the round
    std::vector<float> round(std::uint64_t ordinal, int pieces,
                             std::vector<TestSummary>* summaries) {
        float* buffer = exchange->begin(ordinal).data();
        const int rank = test_world().rank();
        std::int64_t written = buckets.floats;
        for (int piece = 1; piece <= pieces; ++piece) {
            const std::int64_t count = buckets.count() * piece / pieces;
            const std::int64_t from = count == 0 ? buckets.floats : buckets.range(count - 1).begin;
            stream.push([=, end = written] {
                std::this_thread::sleep_for(std::chrono::microseconds(300));
                for (std::int64_t i = from; i < end; ++i) {
                    buffer[i] = exact_value(rank, i, ordinal);
                }
            });
            written = from;
            if (count > 0 && piece < pieces) {
                exchange->ready(from, buckets.floats);
            }
        }
        exchange->finish(own_summary(ordinal));
        const auto all = unpack_summaries<TestSummary>(exchange->wait());
        if (!all) {
            return {};
        }
        if (summaries != nullptr) {
            *summaries = *all;
        }
        std::vector<float> seen(static_cast<std::size_t>(buckets.floats));
        stream.copy(seen.data(), buffer, seen.size() * sizeof(float));
        stream.synchronize();
        return seen;
    }

    /// One round through the host. @return the buffer after it
    std::vector<float> staged_round(std::uint64_t ordinal) {
        float* buffer = exchange->begin(ordinal).data();
        for (std::int64_t i = 0; i < buckets.floats; ++i) {
            buffer[i] = exact_value(test_world().rank(), i, ordinal);
        }
        exchange->finish(own_summary(ordinal));
        return exchange->wait() ? std::vector<float>(buffer, buffer + buckets.floats)
                                : std::vector<float>();
    }

    ThreadDevice device;
    ThreadStream stream;
    HostSumsLibrary library;
    Buckets buckets{1, 64};
    std::unique_ptr<AllReduce> exchange;

private:
    [[nodiscard]] AllReduceSetting setting(const std::vector<int>& members,
                                           AllReduceAlgorithm asked) const {
        CollectiveContext& comm = collective_context(test_world());
        std::vector<int> nodes;
        for (const int rank : members) {
            nodes.push_back(test_world().map().ranks[static_cast<std::size_t>(rank)].node);
        }
        const auto self = std::find(members.begin(), members.end(), test_world().rank());
        return {.comm = comm,
                .members = members,
                .watched = {},
                .nodes = nodes,
                .self = static_cast<int>(self - members.begin()),
                .buckets = buckets,
                .asked = asked,
                .epoch = comm.network.members.epoch()};
    }
};

void expect_rounds(Member& member, const std::vector<int>& members, std::uint64_t rounds) {
    for (std::uint64_t ordinal = 1; ordinal <= rounds; ++ordinal) {
        std::vector<TestSummary> summaries;
        const std::vector<float> got =
            member.round(ordinal, 1 + static_cast<int>(ordinal % 3), &summaries);
        ASSERT_EQ(got, serial_sum(members, member.buckets.floats, ordinal, exact_value));
        ASSERT_EQ(summaries.size(), members.size());
        for (std::size_t i = 0; i < summaries.size(); ++i) {
            EXPECT_EQ(summaries[i].number, members[i] + 10 * static_cast<std::int64_t>(ordinal));
        }
    }
}

TEST(DeviceSumsRing, SumsWhatTheStreamHasWrittenAndGoesOnInItsOrder) {
    const std::vector<int> members = all_ranks();
    for (const std::int64_t floats : {1, 17, 1000, 70001}) {
        SCOPED_TRACE(floats);
        Member member;
        member.make(members, floats, 4096);
        expect_rounds(member, members, 6);
    }
}

TEST(DeviceSumsRing, SumsAreOfAsManyBucketsAsAPieceHoldsOnAllMembersAlike) {
    Member member;  // 18 buckets of 1,024 floats, the first of 592; two are a piece
    member.make(all_ranks(), 18'000, 4096);
    EXPECT_EQ(member.library.registered.size(), 2U) << "both buffers";
    std::vector<std::int64_t> expected{592 + 1024};
    expected.resize(9, 2 * 1024);
    for (std::uint64_t ordinal = 1; ordinal <= 3; ++ordinal) {  // in 1 to 3 parts
        member.library.sizes.clear();
        ASSERT_EQ(member.round(ordinal, static_cast<int>(ordinal), nullptr),
                  serial_sum(all_ranks(), 18'000, ordinal, exact_value));
        EXPECT_EQ(member.library.sizes, expected) << ordinal;
    }
    Member fine;
    fine.library.piece = 1;  // a bucket is the least
    fine.make(all_ranks(), 3000, 4096);
    expect_rounds(fine, all_ranks(), 1);
    EXPECT_EQ(fine.library.sizes, (std::vector<std::int64_t>{952, 1024, 1024}));
}

TEST(DeviceSumsRing, IsLetGoInTheMiddleOfARound) {
    Member member;
    member.make(all_ranks(), 5000, 4096);
    static_cast<void>(member.exchange->begin(1));
    member.exchange->ready(member.buckets.range(0).begin, 5000);
}

TEST(DeviceSumsRing, EndsWhenAMemberIsLostAndTheOthersMakeANewOne) {
    World& world = test_world();
    const int lost = world.size() - 1;
    if (lost == 0) {
        GTEST_SKIP() << "one rank";
    }
    if (world.rank() == 0) {
        world.membership().watch([](const RankEvent&) {});
    }
    const std::vector<int> members = all_ranks();
    std::vector<int> left(members.begin(), members.end() - 1);
    Member member;
    member.make(members, 5000, 4096);
    expect_rounds(member, members, 2);
    if (world.rank() == lost) {
        // It takes part in some buckets, but never hands in the others.
        static_cast<void>(member.exchange->begin(3));
        member.exchange->ready(member.buckets.range(1).begin, 5000);
        while (!world.membership().excluded(lost)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        member.exchange.reset();
    } else {
        std::thread decider;
        if (world.rank() == 0) {
            decider = std::thread([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(300));
                world.membership().exclude(lost);
            });
        }
        EXPECT_TRUE(member.round(3, 2, nullptr).empty());
        if (decider.joinable()) {
            decider.join();
        }
        member.exchange.reset();
        member.make(left, 3000, 4096);
        expect_rounds(member, left, 3);
    }
    if (world.rank() == 0) {
        world.membership().admit(lost);
    }
    while (world.membership().excluded(lost)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

TEST(DeviceSumsRing, IsAbortedWhenAMemberWasLostBetweenRounds) {
    World& world = test_world();
    const int lost = world.size() - 1;
    Member healthy;
    healthy.make(all_ranks(), 100, 4096);
    expect_rounds(healthy, all_ranks(), 1);
    healthy.exchange.reset();
    EXPECT_EQ(healthy.library.aborts, 0);
    if (lost == 0) {
        GTEST_SKIP() << "one rank";
    }
    const std::uint64_t before = world.membership().epoch();
    Member member;
    member.make(all_ranks(), 100, 4096);
    expect_rounds(member, all_ranks(), 1);
    std::string all_have_ended_it;
    static_cast<void>(world.agree(ExitCode::kDone, all_have_ended_it));
    if (world.rank() == 0) {
        world.membership().watch([](const RankEvent&) {});
        world.membership().exclude(lost);
    }
    while (world.membership().epoch() == before) {  // it may be back already
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    member.exchange.reset();
    EXPECT_EQ(member.library.aborts, 1);
    if (world.rank() == 0) {
        world.membership().admit(lost);
    }
    while (world.membership().excluded(lost)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

TEST(DeviceSumsRing, RefusesTwoMembersInOnePlaceAndNamesThem) {
    if (test_world().size() == 1) {
        GTEST_SKIP() << "one rank";
    }
    Member member("host 0000:1b:00.0");
    try {
        member.make(all_ranks(), 100, 4096);
        FAIL() << "two members on one GPU";
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("host 0000:1b:00.0"));
        EXPECT_THAT(error.what(), HasSubstr("rank 0"));
        EXPECT_THAT(error.what(), HasSubstr("rank 1"));
    }
}

/// The error that all members get; none: empty.
std::string refusal(Member& member) {
    try {
        member.make(all_ranks(), 100, 4096);
    } catch (const DeviceError& error) {
        return error.what();
    }
    return "";
}

TEST(DeviceSumsRing, IsRefusedByAllWhenOneCannotNameOrJoinOrMakeIt) {
    const int last = test_world().size() - 1;
    Member naming;
    naming.library.fails_naming = test_world().rank() == 0;
    EXPECT_THAT(refusal(naming), HasSubstr("no network"));
    Member joining;  // the others wait for nobody who has not begun
    joining.library.fails_joining = test_world().rank() == last;
    EXPECT_THAT(refusal(joining), HasSubstr("no card"));
    Member making;  // who fails aborts, so that the others fail too
    making.library.fails_making = test_world().rank() == last;
    EXPECT_THAT(refusal(making), AnyOf(HasSubstr("no path to a peer"), HasSubstr("has aborted")));
    Member again;
    again.make(all_ranks(), 100, 4096);
    expect_rounds(again, all_ranks(), 1);
}

TEST(NcclRing, IsTakenByItselfWhereEveryMemberHasAPlaceOfItsOwn) {
    const int rank = test_world().rank();
    const std::vector<int> members = all_ranks();
    if (members.size() == 1) {
        GTEST_SKIP() << "one rank";
    }
    CollectiveContext& comm = collective_context(test_world());
    const AllReduceSetting setting{.comm = comm,
                                   .members = members,
                                   .nodes = std::vector<int>(members.size(), 0),
                                   .self = rank,
                                   .buckets = Buckets(100, 4096),
                                   .epoch = comm.network.members.epoch()};
    const std::string own = "gpu " + std::to_string(rank);
    // A bucket of another size each time: what was measured for one is kept.
    std::int64_t floats = 100;
    const auto choose = [&](const NcclPlace& place) {
        AllReduceSetting another = setting;
        another.buckets = Buckets(floats++, 4096);
        return choose_all_reduce(another, place);
    };
    EXPECT_EQ(choose({.place = own, .error = ""}), AllReduceAlgorithm::kNccl);
    testing::internal::CaptureStderr();
    EXPECT_NE(choose({.place = rank < 2 ? "gpu" : own, .error = ""}), AllReduceAlgorithm::kNccl);
    EXPECT_NE(choose({.place = rank == 1 ? "" : own, .error = rank == 1 ? "no library" : ""}),
              AllReduceAlgorithm::kNccl);
    const std::string log = testing::internal::GetCapturedStderr();
    if (rank == 0) {  // why not
        EXPECT_THAT(log, HasSubstr("are on one GPU"));
        EXPECT_THAT(log, HasSubstr("no library"));
    }
    testing::internal::CaptureStderr();
    EXPECT_NE(choose({}), AllReduceAlgorithm::kNccl);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("nccl")));
}

/// All go back together; what they have then sums as ever.
void expect_staged(Member& member) {
    EXPECT_NE(member.choose(all_ranks(), 3000), AllReduceAlgorithm::kNccl);
    for (const std::uint64_t ordinal : {1, 2}) {
        EXPECT_EQ(member.staged_round(ordinal),
                  serial_sum(all_ranks(), 3000, ordinal, exact_value));
    }
}

TEST(NcclRing, IsLeftForAnotherWhereItCannotBeSetUpOnSomeMember) {
    std::atomic<bool>& failed = collective_context(test_world()).nccl_failed;
    const bool last = test_world().rank() == test_world().size() - 1;
    for (const auto fails : {&HostSumsLibrary::fails_naming, &HostSumsLibrary::fails_joining,
                             &HostSumsLibrary::fails_making}) {
        failed = false;
        Member member;
        member.library.*fails = fails == &HostSumsLibrary::fails_naming || last;
        expect_staged(member);
        EXPECT_TRUE(failed);
    }
    failed = false;
}

TEST(NcclRing, IsLeftForAnotherWhenItIsMadeAgainAndNotTriedAnyMore) {
    std::atomic<bool>& failed = collective_context(test_world()).nccl_failed;
    Member member;
    EXPECT_EQ(member.choose(all_ranks(), 3000), AllReduceAlgorithm::kNccl);
    expect_rounds(member, all_ranks(), 2);
    testing::internal::CaptureStderr();
    member.library.fails_making = test_world().rank() == test_world().size() - 1;
    expect_staged(member);
    member.library.fails_making = false;
    expect_staged(member);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(member.library.joins, 2);
    const std::string warning = "nccl cannot be set up";
    EXPECT_EQ(log.find(warning), log.rfind(warning)) << log;
    EXPECT_EQ(log.find(warning) != std::string::npos, test_world().rank() == 0) << log;
    failed = false;
}

TEST(NcclRing, IsRefusedWithoutAGpu) {
    Member member;
    const AllReduceScope scope{.device = &member.device, .stream = &member.stream};
    EXPECT_THROW(static_cast<void>(
                     make_all_reduce(test_world(), all_ranks(), 100,
                                     {.algorithm = AllReduceAlgorithm::kNccl, .scope = scope})),
                 UsageError);
    const auto automatic = make_all_reduce(test_world(), all_ranks(), 100, {.scope = scope});
    EXPECT_FALSE(automatic->on_device());
}

}  // namespace
}  // namespace cohort::test
