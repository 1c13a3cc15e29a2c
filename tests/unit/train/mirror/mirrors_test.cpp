// Copies of a run's state in the memory of its ranks: what they hold, who holds them, and what goes
// from rank to rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/core/error.hpp"
#include "core/bytes.hpp"
#include "train/mirror/mirror_keeper.hpp"
#include "train/mirror/mirror_store.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ShardSnapshot shard_of(std::int32_t part, std::int64_t version) {
    return {.part = part,
            .begin = 16 * part,
            .end = 16 * part + 2,
            .version = version,
            .parameters = {1.5F, -2},
            .state = part == 1 ? std::vector<float>{7, 8, 9} : std::vector<float>{},
            .optimizer_slots = {{"momentum", {0.25F, 0.5F}}, {"second", {3, 4}}},
            .optimizer_scalars = {{"steps", 17}}};
}

MirrorBooks books_of(const std::string& mirror, std::int64_t version, std::int32_t parts) {
    MirrorBooks books{.mirror = mirror, .parts = parts, .snapshot = {}};
    books.snapshot.version = version;
    books.snapshot.progress.samples_applied = 100 * version;
    books.snapshot.progress.tta_seconds = 2.5;
    books.snapshot.identity = {{"seed", "3"}, {"batch", "32"}};
    books.snapshot.lease_state = {1, 2, 3};
    books.snapshot.accounts.returned_lost = 5;
    books.snapshot.progress.drops.recent = {4, 9};
    return books;
}

TEST(Mirrors, AShardComesBackAsItWas) {
    for (const std::int32_t part : {0, 1}) {
        const ShardSnapshot before = shard_of(part, 12);
        const MirrorPart packed = pack("memory:1", before);
        const auto header = decode<MirrorHeader>(encode(packed.header));  // as it travels
        const ShardSnapshot after = unpack({.header = header, .floats = packed.floats});
        EXPECT_EQ(after.part, before.part);
        EXPECT_EQ(after.begin, before.begin);
        EXPECT_EQ(after.end, before.end);
        EXPECT_EQ(after.version, before.version);
        EXPECT_EQ(after.parameters, before.parameters);
        EXPECT_EQ(after.state, before.state);
        EXPECT_EQ(after.optimizer_slots, before.optimizer_slots);
        EXPECT_EQ(after.optimizer_scalars, before.optimizer_scalars);
    }
}

TEST(Mirrors, FloatsThatDoNotFitTheHeaderAreRefused) {
    MirrorPart part = pack("memory:1", shard_of(1, 12));
    part.floats = std::make_shared<std::vector<float>>(8);
    EXPECT_THROW((void)unpack(part), PeerError);
}

TEST(Mirrors, BooksTravelWhole) {
    const auto after = decode<MirrorBooks>(encode(books_of("memory:4", 40, 2)));
    EXPECT_EQ(after.mirror, "memory:4");
    EXPECT_EQ(after.parts, 2);
    EXPECT_EQ(after.snapshot.version, 40);
    EXPECT_EQ(after.snapshot.progress.samples_applied, 4000);
    EXPECT_EQ(after.snapshot.progress.tta_seconds, 2.5);
    EXPECT_EQ(after.snapshot.identity, books_of("", 40, 2).snapshot.identity);
    EXPECT_THAT(after.snapshot.lease_state, ElementsAre(1, 2, 3));
    EXPECT_EQ(after.snapshot.accounts.returned_lost, 5);
    EXPECT_THAT(after.snapshot.progress.drops.recent, ElementsAre(4, 9));
    MirrorBooks never = books_of("", 1, 1);
    never.snapshot.progress.tta_seconds.reset();
    EXPECT_FALSE(decode<MirrorBooks>(encode(never)).snapshot.progress.tta_seconds);
}

TEST(Mirrors, ACompleteOneReplacesThoseBefore) {
    MirrorStore store;
    store.put(pack("memory:1", shard_of(0, 10)));
    store.complete(books_of("memory:1", 10, 2));
    store.put(pack("memory:2", shard_of(0, 20)));  // never complete: a writer was lost
    store.put(pack("memory:3", shard_of(0, 30)));
    store.put(pack("memory:3", shard_of(1, 30)));
    ASSERT_EQ(store.held().size(), 3U) << "the last complete one stays until the next is";
    EXPECT_EQ(store.held()[0].samples, 1000);
    EXPECT_EQ(store.held()[2].samples, -1);

    store.complete(books_of("memory:3", 30, 2));
    ASSERT_EQ(store.held().size(), 1U);
    EXPECT_EQ(store.held()[0].mirror, "memory:3");
    EXPECT_EQ(store.held()[0].samples, 3000);
    EXPECT_EQ(store.held()[0].of, 2);
    EXPECT_THAT(store.held()[0].parts, ElementsAre(0, 1));
    EXPECT_FALSE(store.part("memory:1", 0));
    EXPECT_EQ(store.part("memory:3", 1)->header.version, 30);
    EXPECT_EQ(store.books("memory:3")->snapshot.version, 30);

    store.complete(books_of("memory:4", 40, 2));  // of parts that other ranks hold
    EXPECT_THAT(store.held()[0].parts, IsEmpty());
    store.clear();
    EXPECT_THAT(store.held(), IsEmpty());
}

class SomeLost final : public Membership {
public:
    explicit SomeLost(std::vector<int> lost) : lost_(std::move(lost)) {}
    [[nodiscard]] bool excluded(int rank) const override {
        return std::ranges::find(lost_, rank) != lost_.end();
    }
    [[nodiscard]] std::uint64_t epoch() const override { return lost_.size(); }
    void watch(std::function<void(const RankEvent&)> /*watcher*/) override {}
    void exclude(int /*rank*/) override {}
    void admit(int /*rank*/) override {}

private:
    std::vector<int> lost_;
};

TEST(Mirrors, AreHeldByAWorkerOfAnotherHostWhereThereIsOne) {
    RankMap map{.ranks = {}, .servers = 2};
    for (int rank = 0; rank < 5; ++rank) {
        map.ranks.push_back({.rank = rank,
                             .host = "",
                             .node = rank < 3 ? 0 : 1,
                             .cores = "",
                             .role = rank < 2 ? Role::kServer : Role::kWorker});
    }
    const SomeLost none({});
    EXPECT_EQ(mirror_holder(map, &none, 0), 3);
    EXPECT_EQ(mirror_holder(map, nullptr, 0), 3);
    EXPECT_EQ(mirror_holder(map, &none, 1), 4) << "another one for the next server";
    EXPECT_EQ(mirror_holder(map, &none, 4), 2) << "a worker, not a server";
    const SomeLost third({3});
    EXPECT_EQ(mirror_holder(map, &third, 0), 4);
    const SomeLost host({3, 4});
    EXPECT_EQ(mirror_holder(map, &host, 0), 2) << "a worker of the same host";
    const SomeLost workers({2, 3, 4});
    EXPECT_EQ(mirror_holder(map, &workers, 0), 1) << "the other server";
    const SomeLost all({1, 2, 3, 4});
    EXPECT_EQ(mirror_holder(map, &all, 0), 0) << "nobody else is left";
}

}  // namespace
}  // namespace cohort
