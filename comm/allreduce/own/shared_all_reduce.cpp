// kRing and kOrdered. The ranks of a node share memory (node_reducer.hpp); between nodes, if there
// are several, the first members form a ring (leader_ring.cpp) or all members exchange segments
// (ordered_pairs.cpp). Within one node no message is sent, and a waiting caller sums by itself; the
// communication thread sums while the caller computes.
#include <algorithm>
#include <thread>

#include "comm/allreduce/bucket_all_reduce.hpp"
#include "comm/allreduce/own/shared_progress.hpp"

namespace cohort {
namespace {

constexpr int kAllBlocks = 1 << 30;
/// From this many blocks on a bucket is worth waking others for.
constexpr std::int64_t kWorthHelp = 8;

class SharedAllReduce final : public BucketAllReduce {
public:
    SharedAllReduce(const AllReduceSetting& setting, AllReduceAlgorithm algorithm)
        : BucketAllReduce(setting.buckets),
          algorithm_(algorithm),
          round_(setting, algorithm == AllReduceAlgorithm::kOrdered),
          progress_(std::make_unique<SharedProgress>(round_, algorithm)) {
        setting.comm.progress.add_poller(*progress_);
    }

    ~SharedAllReduce() override {
        // Messages of a round that has ended are on their last few bytes. Those of a round that
        // has not may never end: then the memory that they use stays for the rest of the process.
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        while (!round_.broken.load() && !progress_->round_quiet() &&
               std::chrono::steady_clock::now() < limit) {
            round_.wake();
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        round_.setting.comm.progress.remove_poller(*progress_);
        if (!progress_->messages_ended()) {
            round_.memory.leave_mapped();
            static_cast<void>(progress_.release());
        }
    }

    [[nodiscard]] AllReduceAlgorithm algorithm() const noexcept override { return algorithm_; }
    void set_rest(RoundRest rest) override { progress_->set_rest(rest); }

private:
    float* start(std::uint64_t ordinal) override {
        round_.wanted.store(0);
        round_.arrived.store(0);
        round_.paced.store(!progress_->sends_buckets() && pacer().limits());
        round_.ordinal.store(ordinal);
        return round_.node.buffer(round_.node.shape().self, ordinal);
    }

    void arrive(std::int64_t buckets) override {
        if (round_.paced.load()) {
            round_.wanted.store(buckets);
            round_.wake();
        } else if (arrive_until(buckets)) {
            call_for_help(buckets);
        }
    }

    void submit(const SummaryBytes& summary) override {
        round_.driving.store(true);
        const std::uint64_t ordinal = round_.ordinal.load();
        round_.node.submit(ordinal, round(), summary);
        round_.submitted.store(ordinal);
        const std::int64_t count = buckets().count();
        if (round_.paced.load()) {
            arrive(count);
            return;
        }
        const NodeShape& shape = round_.node.shape();
        const bool last = round_.arrived.load() < count && arrive_until(count);
        if (last && shape.blocks(count - 1) >= kWorthHelp) {
            round_.node.progress().ring_bell();
        }
        if (progress_->sends()) {
            round_.wake();
        }
        if (!shape.several_nodes() || last) {
            work(ordinal);
        }
        if (shape.self != 0 && round_.groups.count() > 1) {
            round_.wake_leader();
        }
    }

    std::optional<std::vector<SummaryBytes>> complete() override {
        const std::uint64_t ordinal = round_.ordinal.load();
        std::optional<OperationBoard::Wait> named;
        ShortPatience patience;
        while (!round_.node.progress().complete(ordinal)) {
            if (round_.broken.load()) {
                return std::nullopt;
            }
            if (work(ordinal)) {
                patience.renew();
            } else if (!patience.look_again()) {
                if (!named) {
                    named = round_.setting.comm.operations.begin("ring round", round(),
                                                                 [this] { return missing(); });
                }
                round_.node.sleep(cursor_, ordinal, round_.broken);
                patience.renew();
            }
        }
        round_.driving.store(false);
        return collect(ordinal);
    }

    [[nodiscard]] Pacer& pacer() const { return round_.setting.comm.network.pacer; }

    bool arrive_until(std::int64_t buckets) {
        return round_.arrive_until(buckets) || progress_->sends_buckets();
    }

    /// A bucket is complete on this node and the caller goes on computing.
    void call_for_help(std::int64_t buckets) {
        const NodeShape& shape = round_.node.shape();
        if (progress_->sends_buckets()) {
            round_.wake();
        }
        if (shape.sum == NodeSum::kNone) {
            round_.wake_neighbours();
        } else if (shape.locals() > 1 && !round_.node.progress().ring_bell()) {
            round_.wake();
            if (shape.blocks(buckets - 1) >= kWorthHelp) {
                round_.wake_neighbours();
            }
        }
    }

    bool work(std::uint64_t ordinal) {
        const bool moved = round_.node.work(cursor_, ordinal, kAllBlocks);
        if (moved && round_.node.shape().several_nodes()) {
            round_.wake_leader();
        }
        return moved;
    }

    /// World ranks that the round waits for: those that have not submitted their summary, else
    /// those that hold a block.
    [[nodiscard]] std::vector<int> missing() {
        std::vector<int> ranks;
        for (std::size_t member = 0; member < round_.setting.members.size(); ++member) {
            if (!round_.node.summaries().submitted(round_.ordinal.load(),
                                                   static_cast<int>(member))) {
                ranks.push_back(round_.setting.members[member]);
            }
        }
        if (ranks.empty()) {
            for (const int member : round_.node.busy()) {
                ranks.push_back(round_.setting.rank_of(member));
            }
        }
        return ranks;
    }

    [[nodiscard]] std::vector<SummaryBytes> collect(std::uint64_t ordinal) {
        const NodeSummaries& all = round_.node.summaries();
        std::vector<SummaryBytes> summaries;
        for (std::size_t i = 0; i < round_.setting.members.size(); ++i) {
            const int member = static_cast<int>(i);
            if (all.round_of(ordinal, member) != round()) {
                round_.setting.fail_rounds_differ(i, round(), all.round_of(ordinal, member));
            }
            summaries.push_back(all.summary(ordinal, member));
        }
        return summaries;
    }

    const AllReduceAlgorithm algorithm_;
    SharedRound round_;
    std::unique_ptr<SharedProgress> progress_;
    NodeReducer::Cursor cursor_;
};

}  // namespace

std::unique_ptr<AllReduce> make_shared_all_reduce(const AllReduceSetting& setting,
                                                  AllReduceAlgorithm algorithm) {
    return std::make_unique<SharedAllReduce>(setting, algorithm);
}

}  // namespace cohort
