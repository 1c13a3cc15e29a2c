// Parameters that come down a push tree: who passes them on, and who gets them again after a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "support/train/local_network.hpp"
#include "train/coordinator/servers/parameter_routes.hpp"
#include "train/worker/parameter_relay.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr int kTop = PushTree::kServers;
constexpr int kPieces = 3;

/// Node 0 has a server, each other node two workers: worker 2 n - 2 and 2 n - 1 on node n.
RankMap map_of(int nodes) {
    RankMap map;
    map.servers = 1;
    for (int rank = 0; rank < 1 + 2 * (nodes - 1); ++rank) {
        map.ranks.push_back({.rank = rank,
                             .node = rank == 0 ? 0 : 1 + (rank - 1) / 2,
                             .role = rank == 0 ? Role::kServer : Role::kWorker});
    }
    return map;
}

/// Node 1 is the head of 2 and 3, which is the head of 4 and 5; 6 is alone.
PushTree tree_of_seven(bool down = true) {
    return {{kTop, kTop, 1, 1, 3, 3, kTop}, kPieces, down};
}

class Routes : public testing::Test {
protected:
    static FireOrder update(std::int64_t version, const std::vector<int>& workers, double lag = 0) {
        FireOrder order;
        order.update = {.version = version, .learning_rate = 0.5};
        for (const int worker : workers) {
            order.releases.push_back({.worker = worker, .lag = lag, .incarnation = 7});
        }
        return order;
    }
    FireOrder split(FireOrder order) {
        routes_.split(order, live_);
        return order;
    }
    FireOrder lose(int worker) {
        live_[static_cast<std::size_t>(worker)] = false;
        return routes_.lost(worker);
    }
    static std::vector<int> workers_of(const FireOrder& order) {
        std::vector<int> workers;
        for (const ReleaseOrder& release : order.releases) {
            workers.push_back(release.worker);
        }
        return workers;
    }
    static const ParametersStop& stop_at(const FireOrder& order, int rank) {
        return *std::ranges::find(order.stops, rank, &ParametersStop::rank);
    }

    RankMap map_ = map_of(7);
    ParameterRoutes routes_{map_, tree_of_seven()};
    std::vector<bool> live_ = std::vector<bool>(12, true);
};

TEST_F(Routes, FollowTheTree) {
    const FireOrder order = split(update(1, {0, 1, 2, 4, 5, 6, 7, 9, 10}));
    EXPECT_THAT(workers_of(order), ElementsAre(10)) << "alone on a node that passes nothing on";
    ASSERT_EQ(order.stops.size(), 5U);
    EXPECT_EQ(order.pieces, kPieces);
    EXPECT_EQ(order.stops[0].rank, 1);
    EXPECT_EQ(order.stops[0].from, -1);
    EXPECT_EQ(order.stops[0].releases.size(), 2U);
    EXPECT_EQ(stop_at(order, 10).releases.front().worker, 9) << "the head of node 5 is computing";
    EXPECT_EQ(order.stops[static_cast<std::size_t>(stop_at(order, 10).from)].rank, 5);
    EXPECT_EQ(stop_at(order, 3).from, 0);
    const auto behind =
        stops_from(order.stops, static_cast<std::size_t>(&stop_at(order, 5) - order.stops.data()));
    ASSERT_EQ(behind.size(), 3U);
    EXPECT_EQ(behind[0].from, -1);
    EXPECT_EQ(behind[1].from, 0);
    EXPECT_EQ(behind[2].from, 0);
}

TEST_F(Routes, GoPastNodesWithoutAPart) {
    const FireOrder order = split(update(1, {6, 8}));
    ASSERT_EQ(order.stops.size(), 3U) << "node 3 passes them on, node 1 does not";
    EXPECT_EQ(order.stops[0].rank, 5);
    EXPECT_THAT(order.stops[0].releases, IsEmpty());
    (void)lose(4);
    EXPECT_EQ(split(update(2, {6, 8})).stops[0].rank, 6) << "the node's other worker";
    (void)lose(5);
    EXPECT_EQ(split(update(3, {6, 8})).stops[0].rank, 1) << "the node above";
}

TEST_F(Routes, OnlyOfSeveralWithTheSameParameters) {
    EXPECT_THAT(split(update(1, {3})).stops, IsEmpty());
    FireOrder two = update(2, {0, 1});
    two.releases[1].lag = 0.5;
    EXPECT_THAT(split(two).stops, IsEmpty());
    FireOrder compensated = update(3, {0, 1, 2});
    compensated.update.delay_compensation = 0.1;
    EXPECT_THAT(split(compensated).stops, IsEmpty());
    FireOrder evaluating = update(4, {0, 1, 2});
    for (ReleaseOrder& release : evaluating.releases) {
        release.evaluation.id = 1;
    }
    EXPECT_EQ(split(evaluating).releases.size(), 3U);
    FireOrder groups = update(5, {0, 1, 4, 5});
    groups.releases[2].lag = groups.releases[3].lag = 0.5;
    groups = split(groups);
    ASSERT_EQ(groups.stops.size(), 2U);
    EXPECT_EQ(groups.stops[1].lag, 0.5);
    routes_.use_tree(tree_of_seven(false));
    EXPECT_THAT(split(update(6, {0, 1, 2})).stops, IsEmpty());
}

TEST_F(Routes, SendStraightToThoseBehindALostHead) {
    (void)split(update(1, {0, 1, 2, 3, 4, 6, 7, 8}, 0.25));
    routes_.arrived({.id = {2, 7, 1}, .version = 0});
    routes_.arrived({.id = {6, 7, 1}, .version = 1});  // it has them
    routes_.released(8);                               // it is sent others
    const FireOrder again = lose(4);
    EXPECT_EQ(again.update.version, 1);
    EXPECT_EQ(again.update.learning_rate, 0.5);
    EXPECT_THAT(workers_of(again), ElementsAre(7));
    EXPECT_EQ(again.releases[0].again, 1);
    EXPECT_EQ(again.releases[0].lag, 0.25);
    EXPECT_EQ(again.releases[0].incarnation, 7U);
    (void)split(update(2, {10}));
    const FireOrder rest = lose(0);
    EXPECT_EQ(rest.update.version, 2) << "what servers have by now";
    EXPECT_THAT(workers_of(rest), UnorderedElementsAre(1, 2, 3));
    EXPECT_EQ(rest.releases[0].again, 1) << "sent as what they wait for";
    EXPECT_THAT(lose(1).releases, IsEmpty()) << "once";
}

/// Relays of all workers; the test delivers what has come to them, in any order.
class Relays : public Routes {
protected:
    struct Worker final : TransferSink {
        std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override {
            const auto header = decode<ParametersHeader>(announcement.body);
            pieces.insert(header.piece);
            incarnation = header.incarnation;
            values.resize(kFloats);
            return std::as_writable_bytes(std::span(values).subspan(
                static_cast<std::size_t>(header.begin), bytes / sizeof(float)));
        }
        std::vector<float> values;
        std::set<int> pieces;
        std::uint32_t incarnation = 0;
    };
    static constexpr std::size_t kFloats = 1000;  // 10 of them state

    Relays() {
        for (int rank = 1; rank < map_.size(); ++rank) {
            Messenger& messenger = network_.messenger(rank);
            comm_.push_back(std::make_unique<CommContext>(
                CommContext{messenger, network_.operations(rank), map_, &network_.membership()}));
            relays_[rank] = std::make_unique<ParameterRelay>(*comm_.back(), *device_);
            messenger.set_sink(Port::kNode, relays_[rank].get());
            messenger.set_sink(Port::kWorker, &workers_[rank]);
        }
        std::iota(values_.begin(), values_.end(), 1.0F);
    }
    /// What the server sends first stops.
    void send(const FireOrder& order) {
        for (std::size_t stop = 0; stop < order.stops.size(); ++stop) {
            for (int piece = 0; piece < order.pieces && order.stops[stop].from < 0; ++piece) {
                const std::size_t begin = 990U * static_cast<std::size_t>(piece) / kPieces;
                const std::size_t end = 990U * static_cast<std::size_t>(piece + 1) / kPieces;
                const std::size_t state = piece + 1 == kPieces ? 10 : 0;
                const PassOnHeader header{.parameters = {.version = order.update.version,
                                                         .begin = static_cast<std::int64_t>(begin),
                                                         .end = static_cast<std::int64_t>(end),
                                                         .way = ParametersWay::kPassedOn,
                                                         .piece = piece,
                                                         .pieces = kPieces},
                                          .stops = stops_from(order.stops, stop)};
                network_.messenger(0)
                    .start_transfer(
                        {order.stops[stop].rank, Port::kNode}, Port::kServer,
                        static_cast<std::uint16_t>(NodeMessage::kPassOn), encode(header),
                        std::as_bytes(std::span(values_).subspan(begin, end - begin + state)),
                        ChunkOrder::kForward, nullptr)
                    ->release(kFloats * sizeof(float));
            }
        }
    }
    /// Lets everybody but `idle` pass on what has come, until nothing is left.
    void run(int idle = -1) {
        for (bool moved = true; moved;) {
            moved = false;
            for (auto& [rank, relay] : relays_) {
                Mailbox& mailbox = network_.messenger(rank).mailbox(Port::kNode);
                while (const auto message =
                           rank == idle ? std::nullopt : mailbox.receive(Clock::Seconds(0))) {
                    relay->arrived(decode<PassOnHeader>(message->body));
                    moved = true;
                }
            }
        }
    }
    bool complete(int worker) {
        const Worker& one = workers_[map_.rank_of_worker(worker)];
        return one.pieces.size() == kPieces && one.values == values_ && one.incarnation == 7;
    }

    test::LocalNetwork network_{map_.size(), 1, 256};
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    std::vector<float> values_ = std::vector<float>(kFloats);
    std::map<int, Worker> workers_;
    std::vector<std::unique_ptr<CommContext>> comm_;
    std::map<int, std::unique_ptr<ParameterRelay>> relays_;
};

TEST_F(Relays, EveryWorkerGetsItsCopy) {
    const std::vector<int> released = {0, 1, 2, 4, 5, 6, 7, 9, 10, 11};
    send(split(update(1, released)));
    run();
    for (int worker = 0; worker < 12; ++worker) {
        EXPECT_EQ(complete(worker), std::ranges::count(released, worker) > 0) << worker;
    }
    EXPECT_EQ(network_.messenger(0).counters().bytes_sent, 2 * kFloats * sizeof(float))
        << "to nodes 1 and 6";
}

TEST_F(Relays, ThoseWithoutAllPiecesGetThemAgainWhenAHeadIsLost) {
    const std::vector<int> released = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    send(split(update(1, released)));
    run(map_.rank_of_worker(4));  // it passes nothing on, then is dead
    const std::vector<int> again = workers_of(lose(4));
    for (const int worker : {0, 1, 2, 3, 5, 6, 7, 8, 9}) {
        EXPECT_NE(complete(worker), std::ranges::count(again, worker) > 0) << worker;
    }
}

}  // namespace
}  // namespace cohort
