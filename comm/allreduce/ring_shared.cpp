// kRing and kOrdered. The ranks of a node share memory (ring_node.hpp); between nodes, if there
// are several, the first members form a ring (ring_leaders.cpp) or all members exchange segments
// (ring_pairs.cpp). Within one node no message is sent and a waiting caller does what there is to
// do by itself; the communication thread does it while the caller computes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "comm/allreduce/ring_between.hpp"
#include "comm/allreduce/ring_engine.hpp"
#include "comm/allreduce/ring_set_up.hpp"
#include "comm/allreduce/ring_wait.hpp"
#include "comm/transfer/node_memory.hpp"

namespace cohort {
namespace {

/// Blocks that a communication thread does before it looks at other things.
constexpr int kBlocksPerPoll = 8;
/// How long a communication thread keeps looking after a message has moved.
constexpr std::chrono::microseconds kMemoryPolling{100};
constexpr int kAllBlocks = 1 << 30;
/// From this many blocks on a bucket is worth waking others for.
constexpr std::int64_t kWorthHelp = 8;

class SharedEngine final : public RingEngine, public Poller {
public:
    SharedEngine(const RingSetting& setting, AllReduceAlgorithm algorithm)
        : setting_(setting), groups_(NodeGroups::of(setting)) {
        const NodeShape shape = make_shape(algorithm);
        const int tag = open_memory(shape);
        node_.emplace(memory_.data(), shape);
        if (groups_.count() > 1) {
            between_ = make_between(algorithm, tag);
            if (shape.self == 0) {
                tails_ = make_node_tails(setting_, groups_, *node_, tag);
            }
        }
        setting_.thread.add_poller(*this);
    }

    ~SharedEngine() override {
        // Messages of a round that has ended are on their last few bytes. Those of a round that
        // has not may never end: then what they refer to stays for the rest of the process.
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        while (!broken_.load() && !quiet() && std::chrono::steady_clock::now() < limit) {
            setting_.thread.wake();
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        setting_.thread.remove_poller(*this);
        if (!messages_ended()) {
            memory_.leave_mapped();
            static_cast<void>(between_.release());
            static_cast<void>(tails_.release());
        }
    }

    float* begin(std::uint64_t ordinal, std::uint64_t round) override {
        round_ = round;
        wanted_.store(0);
        arrived_.store(0);
        paced_.store(between_ == nullptr && setting_.thread.pacer().limits());
        ordinal_.store(ordinal);
        return node_->buffer(node_->shape().self, ordinal);
    }

    void arrive(std::int64_t buckets) override {
        if (paced_.load()) {
            wanted_.store(buckets);
            setting_.thread.wake();
        } else if (arrive_until(buckets)) {
            call_for_help(buckets);
        }
    }

    void hand_in(const RingTail& tail) override {
        driving_.store(true);
        const std::uint64_t ordinal = ordinal_.load();
        node_->hand_in(ordinal, round_, tail);
        handed_.store(ordinal);
        const std::int64_t count = node_->shape().buckets.count();
        if (paced_.load()) {
            arrive(count);
            return;
        }
        const bool last = arrived_.load() < count && arrive_until(count);
        if (last && node_->blocks(count - 1) >= kWorthHelp) {
            node_->ring_bell();
        }
        if (between_ != nullptr || tails_ != nullptr) {
            setting_.thread.wake();
        }
        if (!node_->shape().several_nodes() || last) {
            work(ordinal);
        }
        if (tails_ == nullptr && groups_.count() > 1) {
            setting_.thread.wake(leader());
        }
    }

    std::optional<std::vector<RingTail>> wait() override {
        const std::uint64_t ordinal = ordinal_.load();
        std::optional<OperationBoard::Wait> named;
        ShortPatience patience;
        while (!node_->complete(ordinal)) {
            if (broken_.load()) {
                return std::nullopt;
            }
            if (work(ordinal)) {
                patience.renew();
            } else if (!patience.look_again()) {
                if (!named) {
                    named = setting_.thread.operations().begin("ring round", round_,
                                                               [this] { return missing(); });
                }
                node_->sleep(cursor_, ordinal, broken_);
                patience.renew();
            }
        }
        driving_.store(false);
        return collect(ordinal);
    }

    bool poll() override {
        const std::uint64_t handed = handed_.load();  // before anything of that round is looked at
        const std::uint64_t ordinal = ordinal_.load();
        if (ordinal == 0 || broken_.load()) {
            return false;
        }
        bool moved = paced_.load() && arrive_in_time();
        moved = (tails_ != nullptr && tails_->advance(ordinal, 0)) || moved;
        if (between_ != nullptr) {
            moved = between_->advance(ordinal, arrived_.load()) || moved;
        }
        if (!driving_.load() || between_ != nullptr) {
            moved = node_->work(poll_cursor_, ordinal, kBlocksPerPoll) || moved;
        }
        if (messages_ended()) {
            quiet_.store(handed);
        }
        return look_again(moved) || moved;
    }

    bool moving() const override {
        return !broken_.load() && between_ != nullptr && !between_->quiet();
    }

    void members_changed() override {
        if (!broken_.load() && setting_.lost_member()) {
            broken_.store(true);
            node_->ring_bell();
        }
    }

private:
    /// Nothing of this rank's last round is under way or still to be sent.
    [[nodiscard]] bool quiet() const {
        return (between_ == nullptr && tails_ == nullptr) || quiet_.load() == ordinal_.load();
    }
    /// On the communication thread, or when it does not poll this.
    [[nodiscard]] bool messages_ended() const {
        return (between_ == nullptr || between_->quiet()) && (tails_ == nullptr || tails_->quiet());
    }
    /// While messages are under way the next one is near.
    [[nodiscard]] bool look_again(bool moved) {
        if (between_ == nullptr || between_->quiet()) {
            return false;
        }
        const auto now = std::chrono::steady_clock::now();
        last_move_ = moved ? now : last_move_;
        return now - last_move_ < kMemoryPolling;
    }
    [[nodiscard]] int rank_of(int member) const {
        return setting_.members[static_cast<std::size_t>(member)];
    }
    [[nodiscard]] const std::vector<int>& local() const {
        return groups_.members[static_cast<std::size_t>(groups_.own)];
    }
    [[nodiscard]] int leader() const { return rank_of(local()[0]); }

    [[nodiscard]] NodeShape make_shape(AllReduceAlgorithm algorithm) const {
        NodeShape shape;
        shape.members = static_cast<int>(setting_.members.size());
        shape.local = local();
        shape.self = static_cast<int>(std::find(local().begin(), local().end(), setting_.self) -
                                      local().begin());
        shape.buckets = setting_.buckets;
        if (groups_.count() > 1) {
            shape.sum =
                algorithm == AllReduceAlgorithm::kOrdered ? NodeSum::kNone : NodeSum::kFirst;
        }
        return shape;
    }

    [[nodiscard]] SetUpRecord own_record(int collective) const {
        SetUpRecord record;
        record.collective = collective;
        record.floats = setting_.buckets.floats;
        record.bucket_floats = setting_.buckets.size;
        record.algorithm = static_cast<std::int64_t>(setting_.asked);
        return record;
    }

    /// Numbered: 1. the first member of each node creates its memory; 2. all learn of it, and of
    /// failures; 3. the others open it, everybody takes hold of its own part; 4. all learn of
    /// failures; 5. the memory's last way in is closed. @return the exchange's first tag
    int open_memory(const NodeShape& shape) {
        SetUpRecord own = own_record(setting_.thread.last_collective().load() + 1);
        try {
            if (shape.self == 0) {
                memory_ = NodeMemory::create(NodePart::bytes(shape));
                own.descriptor = memory_.descriptor();
            }
        } catch (const DeviceError& error) {
            own.set_error(error.what());
        }
        const auto records = gather_records(setting_, own);
        check_records(setting_.thread.map(), setting_.members, records);
        for (const SetUpRecord& record : records) {
            own.collective = std::max(own.collective, record.collective);
        }
        setting_.thread.last_collective().store(own.collective);
        take_memory(shape, records[static_cast<std::size_t>(local()[0])].descriptor, own);
        check_records(setting_.thread.map(), setting_.members, gather_records(setting_, own));
        memory_.close_descriptor();
        return own.collective * RingMessages::kTags;
    }

    void take_memory(const NodeShape& shape, int descriptor, SetUpRecord& own) {
        try {
            if (shape.self != 0) {
                const auto& ranks = setting_.thread.map().ranks;
                memory_ = NodeMemory::open(ranks[static_cast<std::size_t>(leader())].pid,
                                           descriptor, NodePart::bytes(shape));
            } else {
                memory_.reserve(0, NodePart::member_offset(shape, 0));
            }
            memory_.reserve(NodePart::member_offset(shape, shape.self),
                            NodePart::member_bytes(shape));
        } catch (const DeviceError& error) {
            own.set_error(error.what());
        }
    }

    [[nodiscard]] std::unique_ptr<BetweenNodes> make_between(AllReduceAlgorithm algorithm,
                                                             int tag) {
        if (algorithm == AllReduceAlgorithm::kOrdered) {
            return make_ordered_pairs(setting_, groups_, *node_, tag);
        }
        return node_->shape().self == 0 ? make_leader_ring(setting_, groups_, *node_, tag)
                                        : nullptr;
    }

    /// Paced: the communication thread lets buckets arrive as they would over a network.
    bool arrive_in_time() {
        bool moved = false;
        for (std::int64_t next = arrived_.load(); next < wanted_.load(); ++next) {
            const FloatRange range = setting_.buckets.range(next);
            if (!setting_.thread.pacer().may_exchange(traffic_of(setting_, range))) {
                break;
            }
            if (arrive_until(next + 1)) {
                node_->ring_bell();
            }
            moved = true;
        }
        if (moved && groups_.count() > 1) {
            setting_.thread.wake(leader());
        }
        return moved;
    }

    bool arrive_until(std::int64_t buckets) {
        const std::int64_t from = arrived_.load();
        const bool last = node_->arrive(ordinal_.load(), from, buckets);
        arrived_.store(buckets);
        return last || between_ != nullptr;
    }

    /// A bucket is complete on this node and the caller goes on computing.
    void call_for_help(std::int64_t buckets) {
        if (between_ != nullptr) {
            setting_.thread.wake();
        }
        if (node_->shape().sum == NodeSum::kNone) {
            wake_neighbours();
        } else if (node_->shape().locals() > 1 && !node_->ring_bell()) {
            setting_.thread.wake();
            if (node_->blocks(buckets - 1) >= kWorthHelp) {
                wake_neighbours();
            }
        }
    }

    void wake_neighbours() {
        for (const int member : local()) {
            if (member != setting_.self) {
                setting_.thread.wake(rank_of(member));
            }
        }
    }

    bool work(std::uint64_t ordinal) {
        const bool moved = node_->work(cursor_, ordinal, kAllBlocks);
        if (moved && node_->shape().several_nodes()) {
            setting_.thread.wake(leader());
        }
        return moved;
    }

    /// World ranks that the round waits for: those that have not finished theirs, else those that
    /// hold a block.
    [[nodiscard]] std::vector<int> missing() const {
        std::vector<int> ranks;
        for (std::size_t member = 0; member < setting_.members.size(); ++member) {
            if (!node_->handed_in(ordinal_.load(), static_cast<int>(member))) {
                ranks.push_back(setting_.members[member]);
            }
        }
        if (ranks.empty()) {
            for (const int member : node_->busy()) {
                ranks.push_back(rank_of(member));
            }
        }
        return ranks;
    }

    [[nodiscard]] std::vector<RingTail> collect(std::uint64_t ordinal) const {
        std::vector<RingTail> tails;
        for (std::size_t i = 0; i < setting_.members.size(); ++i) {
            const int member = static_cast<int>(i);
            if (node_->round_of(ordinal, member) != round_) {
                fail<PeerError>({.where = "ring round",
                                 .what = "members are in different rounds",
                                 .expected = std::to_string(round_),
                                 .got = std::to_string(node_->round_of(ordinal, member)) + " on " +
                                        setting_.thread.map().describe(setting_.members[i])});
            }
            tails.push_back(node_->tail(ordinal, member));
        }
        return tails;
    }

    RingSetting setting_;
    NodeGroups groups_;
    NodeMemory memory_;
    std::optional<NodePart> node_;
    std::unique_ptr<BetweenNodes> between_;  ///< null within one node, and if only others send
    std::unique_ptr<BetweenNodes> tails_;    ///< first member of a node, with several nodes
    NodePart::Cursor cursor_;
    NodePart::Cursor poll_cursor_;                     ///< the communication thread's
    std::chrono::steady_clock::time_point last_move_;  ///< the communication thread's
    std::uint64_t round_ = 0;
    std::atomic<std::uint64_t> ordinal_{0};
    std::atomic<std::int64_t> arrived_{0};  ///< buckets
    std::atomic<std::int64_t> wanted_{0};   ///< paced: buckets that are to arrive
    std::atomic<bool> paced_{false};        ///< the communication thread lets buckets arrive
    std::atomic<bool> broken_{false};       ///< a member was lost
    std::atomic<bool> driving_{false};      ///< the caller does what there is to do
    std::atomic<std::uint64_t> handed_{0};  ///< last round that this member has handed in
    std::atomic<std::uint64_t> quiet_{0};   ///< the same, when no message of it is under way
};

}  // namespace

std::unique_ptr<RingEngine> make_shared_engine(const RingSetting& setting,
                                               AllReduceAlgorithm algorithm) {
    return std::make_unique<SharedEngine>(setting, algorithm);
}

}  // namespace cohort
