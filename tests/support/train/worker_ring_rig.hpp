#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/train/local_rounds.hpp"
#include "support/train/worker_rig.hpp"
#include "train/protocol/protocol_ring.hpp"

namespace cohort::test {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// A rig whose coordinator gives leases and grants and takes what the workers hold.
struct Ring : WorkerRig, TransferSink {
    Ring(const std::string& model, int workers, double stall_limit_s = 60)
        : WorkerRig(model, workers, 0, stall_limit_s) {
        network.messenger(0).set_sink(Port::kCoordinator, this);
    }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring() override { stop(); }
    void start_all(const BeginOrder& order_to_begin = {}) {
        for (int worker = 0; worker < network.map().workers(); ++worker) {
            start(rounds.factory(worker));
            order(worker, MessageKind::kBegin, order_to_begin);
        }
    }
    std::span<std::byte> accept(const Message& /*announcement*/, std::uint64_t bytes) override {
        gathered.resize(bytes / sizeof(float));
        return std::as_writable_bytes(std::span(gathered));
    }
    /// A round in which member i has counts[i] samples; the leases follow one another.
    RoundOrder grant(const std::vector<std::int64_t>& counts) {
        RoundOrder order_of_round;
        order_of_round.round = ++granted;
        order_of_round.ring = 1;
        order_of_round.keep = {1};
        order_of_round.lr = 0.05;
        std::int64_t samples = 0;
        for (std::size_t worker = 0; worker < counts.size(); ++worker) {
            RoundMember member{.worker = static_cast<std::int32_t>(worker), .riders = {}};
            if (counts[worker] > 0) {
                member.lease = ++leases;
                member.samples = counts[worker];
                lease(member.worker, member.lease, position, member.samples);
                position += member.samples;
                samples += member.samples;
            }
            order_of_round.members.push_back(member);
        }
        order_of_round.fraction =
            static_cast<double>(samples) / static_cast<double>(job.reference_batch);
        return order_of_round;
    }
    void send(const RoundOrder& round) {
        for (int worker = 0; worker < network.map().workers(); ++worker) {
            order(worker, MessageKind::kRound, round);
        }
    }
    /// Worker 0's parameters, then its state.
    std::vector<float> gather(std::int64_t version) {
        RoundOrder ask;
        ask.snapshot.gather = 77;
        send(ask);
        const auto header = told<GatheredHeader>(MessageKind::kGathered);
        EXPECT_EQ(header.gather, 77U);
        EXPECT_EQ(header.version, version);
        EXPECT_EQ(header.part, 0);
        return gathered;
    }

    LocalRounds rounds;
    std::vector<float> gathered;
    std::uint64_t granted = 0;
    std::uint64_t leases = 0;
    std::int64_t position = 0;
};

/// One process that does what a ring should: micro-batches weighted and summed in member order.
struct Reference : LoneReplica {
    explicit Reference(Ring& ring_to_follow)
        : LoneReplica(ring_to_follow.job.graph),
          ring(ring_to_follow),
          optimizer(make_optimizer(ring.job.optimizer, ring.job.graph.parameters(), 0,
                                   ring.job.graph.parameters().total(), *device,
                                   replica.stream())) {
        replica.initialise(ring.job.options.seed);
    }
    std::vector<BatchResult> round(const std::vector<std::int64_t>& counts) {
        std::int64_t all = 0;
        for (const std::int64_t count : counts) {
            all += count;
        }
        gradient.assign(replica.gradients().size(), 0);
        std::vector<float> statistics(replica.batch_state().size());
        std::vector<BatchResult> results;
        for (const std::int64_t count : counts) {
            results.emplace_back();
            if (count == 0) {
                continue;
            }
            results.back() =
                replica.train_step(view_of(ring.batch(position, count)), ring.job.options.seed);
            position += count;
            const auto weight =
                static_cast<float>(static_cast<double>(count) / static_cast<double>(all));
            add(gradient, replica.gradients(), weight);
            add(statistics, replica.batch_state(), weight);
        }
        const double fraction =
            static_cast<double>(all) / static_cast<double>(ring.job.reference_batch);
        optimizer->update(replica.parameters(), gradient, fraction, 0.05);
        cohort::fold_batch_statistics(replica.state(), statistics, 0.1, fraction);
        return results;
    }
    static void add(std::vector<float>& to, std::span<const float> from, float weight) {
        for (std::size_t i = 0; i < to.size(); ++i) {
            const volatile float product = weight * from[i];  // rounded, never fused
            to[i] += product;
        }
    }
    [[nodiscard]] std::vector<float> values() {
        std::vector<float> all(replica.parameters().begin(), replica.parameters().end());
        all.insert(all.end(), replica.state().begin(), replica.state().end());
        return all;
    }
    Ring& ring;
    std::unique_ptr<Optimizer> optimizer;
    std::int64_t position = 0;
    std::vector<float> gradient;  ///< of the last round
};

/// -0 and +0 are one value.
inline void expect_equal(std::span<const float> a, std::span<const float> b) {
    ASSERT_EQ(a.size(), b.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        different += a[i] == b[i] ? 0 : 1;
    }
    EXPECT_EQ(different, 0U);
}

}  // namespace cohort::test
