// Tails between nodes. The first member of each node sends the tails of its node to those of all
// others as soon as they are complete, whatever the buckets do; when somebody of the node lets the
// others wait, it sends those that are there, so that a waiting rank knows whom it waits for.
// Cost per leader and round: n-1 small messages, n nodes.
#include <algorithm>

#include "comm/allreduce/ring_between.hpp"

namespace cohort {
namespace {

using std::chrono::steady_clock;

/// After this long a node tells which of its members are there, and again when more have come.
constexpr std::chrono::milliseconds kTellPeriod{250};

struct NodeTail {
    std::uint64_t ordinal = 0;  ///< of the round that it belongs to; another: not handed in yet
    std::uint64_t round = 0;
    RingTail tail;
};

struct Peer {
    int rank = 0;  ///< in the world
    std::vector<int> members;
    std::vector<NodeTail> incoming;
    RingRequest receive;
    RingRequest send;
    bool posted = false;
    bool complete = false;
};

class NodeTails final : public BetweenNodes {
public:
    NodeTails(const RingSetting& setting, const NodeGroups& groups, NodePart& node, int tag)
        : node_(node), messages_(setting.thread, tag), outgoing_(node.shape().local.size()) {
        for (int index = 0; index < groups.count(); ++index) {
            if (index != groups.own) {
                Peer peer;
                peer.members = groups.members[static_cast<std::size_t>(index)];
                peer.rank = setting.members[static_cast<std::size_t>(peer.members[0])];
                peer.incoming.resize(peer.members.size());
                peers_.push_back(std::move(peer));
            }
        }
    }

    bool advance(std::uint64_t ordinal, std::int64_t) override {
        if (ordinal != ordinal_) {
            // The round before can end here, and the next begin, before its tails have left.
            if (ordinal_ != 0 && told_ < outgoing_.size() && !send(ordinal_)) {
                return false;
            }
            start(ordinal);
        }
        const bool sent = send(ordinal);
        bool received = false;
        for (Peer& peer : peers_) {
            received = receive(peer, ordinal) || received;
        }
        if (received && std::all_of(peers_.begin(), peers_.end(),
                                    [](const Peer& peer) { return peer.complete; })) {
            node_.tails_complete();
        }
        return sent || received;
    }

    [[nodiscard]] bool quiet() const override {
        if (ordinal_ != 0 && told_ < outgoing_.size()) {
            return false;
        }
        return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
            return peer.receive == nullptr && peer.send == nullptr;
        });
    }

private:
    void start(std::uint64_t ordinal) {
        ordinal_ = ordinal;
        told_ = 0;
        last_told_ = steady_clock::now();
        for (Peer& peer : peers_) {
            peer.posted = false;
            peer.complete = false;
        }
    }

    bool send(std::uint64_t ordinal) {
        bool idle = true;
        for (Peer& peer : peers_) {
            idle = messages_.ended(peer.send) && idle;
        }
        const auto& local = node_.shape().local;
        const auto here =
            static_cast<std::size_t>(std::count_if(local.begin(), local.end(), [&](int member) {
                return node_.handed_in(ordinal, member);
            }));
        const bool due = here == local.size() || steady_clock::now() - last_told_ > kTellPeriod;
        if (!idle || here <= told_ || !due) {
            return false;
        }
        told_ = 0;
        for (std::size_t i = 0; i < local.size(); ++i) {
            outgoing_[i] = {};
            if (node_.handed_in(ordinal, local[i])) {
                outgoing_[i] = {ordinal, node_.round_of(ordinal, local[i]),
                                node_.tail(ordinal, local[i])};
                ++told_;
            }
        }
        last_told_ = steady_clock::now();
        for (Peer& peer : peers_) {
            peer.send = messages_.send(outgoing_.data(), outgoing_.size() * sizeof(NodeTail),
                                       peer.rank, RingMessages::kTailTag);
        }
        return true;
    }

    bool receive(Peer& peer, std::uint64_t ordinal) {
        if (peer.complete) {
            return false;
        }
        if (!peer.posted) {
            peer.receive =
                messages_.receive(peer.incoming.data(), peer.incoming.size() * sizeof(NodeTail),
                                  peer.rank, RingMessages::kTailTag);
            peer.posted = true;
        }
        if (!messages_.received(peer.receive)) {
            return false;
        }
        peer.posted = false;
        peer.complete = true;
        for (std::size_t i = 0; i < peer.members.size(); ++i) {
            const NodeTail& record = peer.incoming[i];
            if (record.ordinal != ordinal) {
                peer.complete = false;
            } else if (!node_.handed_in(ordinal, peer.members[i])) {
                node_.put_tail(ordinal, peer.members[i], record.round, record.tail);
            }
        }
        return true;
    }

    NodePart& node_;
    RingMessages messages_;
    std::vector<NodeTail> outgoing_;
    std::vector<Peer> peers_;
    std::uint64_t ordinal_ = 0;
    std::size_t told_ = 0;  ///< tails of this node that the others have
    steady_clock::time_point last_told_;
};

}  // namespace

std::unique_ptr<BetweenNodes> make_node_tails(const RingSetting& setting, const NodeGroups& groups,
                                              NodePart& node, int tag) {
    return std::make_unique<NodeTails>(setting, groups, node, tag);
}

}  // namespace cohort
