// Summaries between nodes. The first member of each node sends the summaries of its node to the
// first members of all others as soon as they are complete, independently of the buckets. When a
// member keeps its node waiting, the summaries that are already there are sent, so that a waiting
// rank knows which members are missing. Cost per leader and round: n-1 small messages, n nodes.
#include <algorithm>
#include <chrono>

#include "comm/allreduce/own/message_stream.hpp"
#include "comm/allreduce/own/shared_round.hpp"

namespace cohort {
namespace {

using std::chrono::steady_clock;

/// After this long a node tells which of its members have submitted, and again when more have.
constexpr std::chrono::milliseconds kTellPeriod{250};

struct NodeSummary {
    std::uint64_t ordinal = 0;  ///< of the round that it belongs to; another: not submitted yet
    std::uint64_t round = 0;
    SummaryBytes summary{};
};

struct Peer {
    int rank = 0;  ///< in the world
    std::vector<int> members;
    std::vector<NodeSummary> incoming;
    MessageRequest receive;
    MessageRequest send;
    bool posted = false;
    bool complete = false;
};

class InterNodeSummaries final : public InterNodeReducer {
public:
    explicit InterNodeSummaries(SharedRound& round)
        : node_(round.node),
          messages_(round.setting.comm, round.tag),
          outgoing_(round.groups.local().size()) {
        for (int index = 0; index < round.groups.count(); ++index) {
            if (index != round.groups.own) {
                Peer peer;
                peer.members = round.groups.on(index);
                peer.rank = round.setting.rank_of(peer.members[0]);
                peer.incoming.resize(peer.members.size());
                peers_.push_back(std::move(peer));
            }
        }
    }

    bool advance(std::uint64_t ordinal, std::int64_t) override {
        if (ordinal != ordinal_) {
            // The round before can end on this rank, and the next begin, before its summaries have
            // left.
            if (some_untold() && !send(ordinal_)) {
                return false;
            }
            start(ordinal);
        }
        const bool sent = send(ordinal);
        bool received = false;
        for (Peer& peer : peers_) {
            received = receive(peer, ordinal) || received;
        }
        if (received &&
            std::ranges::all_of(peers_, [](const Peer& peer) { return peer.complete; })) {
            node_.progress().advance();
        }
        return sent || received;
    }

    [[nodiscard]] bool quiet() const override {
        return !some_untold() && std::ranges::all_of(peers_, [](const Peer& peer) {
            return peer.receive == nullptr && peer.send == nullptr;
        });
    }

private:
    [[nodiscard]] bool some_untold() const { return ordinal_ != 0 && told_ < outgoing_.size(); }

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
        const NodeSummaries& summaries = node_.summaries();
        const auto& local = node_.shape().local;
        const auto submitted = static_cast<std::size_t>(std::ranges::count_if(
            local, [&](int member) { return summaries.submitted(ordinal, member); }));
        const bool due =
            submitted == local.size() || steady_clock::now() - last_told_ > kTellPeriod;
        if (!idle || submitted <= told_ || !due) {
            return false;
        }
        told_ = 0;
        for (std::size_t i = 0; i < local.size(); ++i) {
            outgoing_[i] = {};
            if (summaries.submitted(ordinal, local[i])) {
                outgoing_[i] = {ordinal, summaries.round_of(ordinal, local[i]),
                                summaries.summary(ordinal, local[i])};
                ++told_;
            }
        }
        last_told_ = steady_clock::now();
        for (Peer& peer : peers_) {
            peer.send = messages_.send(outgoing_.data(), outgoing_.size() * sizeof(NodeSummary),
                                       peer.rank, MessageStream::kSummaryTag);
        }
        return true;
    }

    bool receive(Peer& peer, std::uint64_t ordinal) {
        if (peer.complete) {
            return false;
        }
        if (!peer.posted) {
            peer.receive =
                messages_.receive(peer.incoming.data(), peer.incoming.size() * sizeof(NodeSummary),
                                  peer.rank, MessageStream::kSummaryTag);
            peer.posted = true;
        }
        if (!messages_.received(peer.receive)) {
            return false;
        }
        peer.posted = false;
        peer.complete = true;
        for (std::size_t i = 0; i < peer.members.size(); ++i) {
            const NodeSummary& record = peer.incoming[i];
            if (record.ordinal != ordinal) {
                peer.complete = false;
            } else if (!node_.summaries().submitted(ordinal, peer.members[i])) {
                node_.summaries().put(ordinal, peer.members[i], record.round, record.summary);
            }
        }
        return true;
    }

    NodeReducer& node_;
    MessageStream messages_;
    std::vector<NodeSummary> outgoing_;
    std::vector<Peer> peers_;
    std::uint64_t ordinal_ = 0;
    std::size_t told_ = 0;  ///< summaries of this node that the others have
    steady_clock::time_point last_told_;
};

}  // namespace

std::unique_ptr<InterNodeReducer> make_inter_node_summaries(SharedRound& round) {
    return std::make_unique<InterNodeSummaries>(round);
}

}  // namespace cohort
