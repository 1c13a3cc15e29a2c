// Workers on a GPU: what they push, sum and apply is what a worker on the CPU does, within what the
// precision costs. The test plays the coordinator, the servers and the ring.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/gpu/gpu_backend.hpp"
#include "support/train/local_rounds.hpp"
#include "support/train/worker_rig.hpp"
#include "train/protocol/protocol_ring.hpp"

namespace cohort {
namespace {

using test::Backend;
using test::WorkerRig;

/// Norm of the difference over that of `expected`.
double distance(std::span<const float> got, std::span<const float> expected) {
    double apart = 0;
    double all = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
        apart += difference * difference;
        all += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    }
    return std::sqrt(apart / all);
}

/// Of a whole small network, see limits() for a layer's.
double limit(const Backend& backend) {
    switch (backend.precision) {
        case Precision::kF32: return 1e-4;
        case Precision::kTf32: return 0.05;
        case Precision::kF16: return 0.08;
        case Precision::kBf16: return 0.3;
    }
    return 0;
}

class Jobs : public testing::TestWithParam<Backend> {
protected:
    void SetUp() override { test::need(GetParam()); }
    void use(WorkerRig& rig) const {
        rig.job.options.device = GetParam().cuda ? "cuda" : "cpu";
        rig.job.options.precision = static_cast<PrecisionChoice>(GetParam().precision);
    }
};

INSTANTIATE_TEST_SUITE_P(Backends, Jobs, testing::ValuesIn(test::all_backends()),
                         test::backend_name);

TEST_P(Jobs, APushIsTheGradientOfItsMiniBatch) {
    WorkerRig rig("smallcnn", 1, 2);
    use(rig);
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    const test::Values values(rig.job.graph, 11);
    for (std::int64_t step = 0; step < 4; ++step) {  // queued, recorded, and queued as a whole
        const auto lease = static_cast<std::uint64_t>(step + 1);
        rig.lease(0, lease, 16 * step, 16);
        rig.servers->send_all(0, values, {.version = step});
        std::vector<float> pushed;
        for (const ShardRange& shard : rig.servers->shards()) {
            PushId id;
            const std::vector<float> part = rig.servers->pushed(shard.part, id);
            EXPECT_EQ(id.sequence, lease);
            pushed.insert(pushed.end(), part.begin(), part.begin() + shard.parameters());
        }
        const auto report = rig.told<PushReport>(MessageKind::kPushReport);
        EXPECT_TRUE(report.ticket.finite);
        EXPECT_EQ(report.ticket.samples, 16);
        EXPECT_GT(report.times.compute_s, 0);
        test::LoneReplica lone(rig.job.graph);
        std::ranges::copy(values.parameters, lone.replica.parameters().begin());
        std::ranges::copy(values.state, lone.replica.state().begin());
        const LoadedBatch batch = rig.batch(16 * step, 16);
        const BatchResult expected = lone.replica.train_step(view_of(batch), rig.job.options.seed);
        EXPECT_LT(distance(pushed, lone.replica.gradients()), limit(GetParam())) << step;
        EXPECT_NEAR(report.ticket.loss_sum, expected.loss_sum,
                    limit(GetParam()) * std::abs(expected.loss_sum));
        double squares = 0;
        for (const float value : pushed) {
            squares += static_cast<double>(value) * static_cast<double>(value);
        }
        EXPECT_NEAR(report.ticket.gradient_norm, std::sqrt(squares), 1e-6 * std::sqrt(squares))
            << "of what was pushed";
    }
}

/// The batch of a lease is copied to the device while the one before it computes. A lease that is
/// taken back takes its batch along, and the next one's is not mistaken for it.
TEST_P(Jobs, ABatchThatWasTakenBackCountsForNothing) {
    WorkerRig rig("smallcnn", 1, 2);
    use(rig);
    rig.start();
    rig.order(0, MessageKind::kBegin, BeginOrder{});
    const test::Values values(rig.job.graph, 11);
    for (std::uint64_t lease = 1; lease <= 3; ++lease) {
        rig.lease(0, lease, 16 * static_cast<std::int64_t>(lease - 1), 16);
    }
    std::int64_t version = 0;
    for (const std::uint64_t lease : {1, 3}) {
        rig.servers->send_all(0, values, {.version = version++});
        std::vector<float> pushed;
        for (const ShardRange& shard : rig.servers->shards()) {
            PushId id;
            const std::vector<float> part = rig.servers->pushed(shard.part, id);
            pushed.insert(pushed.end(), part.begin(), part.begin() + shard.parameters());
        }
        EXPECT_EQ(rig.told<PushReport>(MessageKind::kPushReport).ticket.lease, lease);
        test::LoneReplica lone(rig.job.graph);
        std::ranges::copy(values.parameters, lone.replica.parameters().begin());
        std::ranges::copy(values.state, lone.replica.state().begin());
        const LoadedBatch batch = rig.batch(16 * static_cast<std::int64_t>(lease - 1), 16);
        lone.replica.train_step(view_of(batch), rig.job.options.seed);
        EXPECT_LT(distance(pushed, lone.replica.gradients()), limit(GetParam())) << lease;
        rig.order(0, MessageKind::kRevoke, RevokeOrder{.leases = {2}, .up_to = 0, .version = 1});
    }
}

/// Takes worker 0's parameters and state.
struct Gatherer final : TransferSink {
    std::span<std::byte> accept(const Message& /*announcement*/, std::uint64_t bytes) override {
        floats.resize(bytes / sizeof(float));
        return std::as_writable_bytes(std::span(floats));
    }
    std::vector<float> floats;
};

/// Parameters after some rounds of a ring.
std::vector<float> after_rounds(int workers, const std::function<void(WorkerRig&)>& prepare) {
    WorkerRig rig("smallcnn", workers, 0);
    Gatherer gatherer;
    rig.network.messenger(0).set_sink(Port::kCoordinator, &gatherer);
    prepare(rig);
    test::LocalRounds rounds;
    for (int worker = 0; worker < workers; ++worker) {
        rig.start(rounds.factory(worker));
        rig.order(worker, MessageKind::kBegin, BeginOrder{});
    }
    std::uint64_t lease = 0;
    constexpr std::uint64_t kRounds = 4;
    for (std::uint64_t round = 1; round <= kRounds + 1; ++round) {
        RoundOrder order;
        order.round = round;
        order.ring = 1;
        order.keep = {1};
        order.lr = 0.05;
        order.fraction = 1;
        if (round > kRounds) {
            order.snapshot.gather = 7;
        }
        for (int worker = 0; worker < workers && round <= kRounds; ++worker) {
            rig.lease(worker, lease + 1, 8 * static_cast<std::int64_t>(lease), 8);
            ++lease;
            order.members.push_back({.worker = worker, .lease = lease, .samples = 8, .riders = {}});
        }
        for (int worker = 0; worker < workers; ++worker) {
            rig.order(worker, MessageKind::kRound, order);
        }
        if (round <= kRounds) {
            const auto report = rig.told<RoundReport>(MessageKind::kRoundDone);
            EXPECT_EQ(report.version, static_cast<std::int64_t>(round));
            for (const auto& member : report.members) {
                EXPECT_TRUE(member.finite);
                EXPECT_GT(member.compute_s, 0);
            }
        }
    }
    (void)rig.told<GatheredHeader>(MessageKind::kGathered);
    rig.stop();
    rig.network.messenger(0).set_sink(Port::kCoordinator, nullptr);
    const auto parameters = static_cast<std::ptrdiff_t>(rig.job.graph.parameters().total());
    return {gatherer.floats.begin(), gatherer.floats.begin() + parameters};
}

/// Of some workers, which all use the same GPU.
void compare_rings(int workers, const Backend& backend,
                   const std::function<void(WorkerRig&)>& use) {
    const std::vector<float> got = after_rounds(workers, use);
    const std::vector<float> expected = after_rounds(workers, [](WorkerRig&) {});
    EXPECT_LT(distance(got, expected), limit(backend));
}

/// The gradient stays on the device.
TEST_P(Jobs, ARingOfOneTrainsAsOnTheCpu) {
    compare_rings(1, GetParam(), [this](WorkerRig& rig) { use(rig); });
}

/// It is copied to the host, and the sum back.
TEST_P(Jobs, ARingOfTwoTrainsAsOnTheCpu) {
    compare_rings(2, GetParam(), [this](WorkerRig& rig) { use(rig); });
}

}  // namespace
}  // namespace cohort
