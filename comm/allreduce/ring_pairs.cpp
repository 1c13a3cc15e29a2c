// The ordered form between nodes. Idea: member j owns segment j of a bucket. Every member sends
// its own contribution to that segment straight to the owner; the owner adds all of them in the
// order of the members, as one node does in its shared memory, and sends the sum to one member of
// each other node, which copies it to its neighbours. The bits do not depend on who is where.
// Cost per member and bucket of B bytes, n members on m nodes of n/m each: sent and received
// (1 - 1/m) B of contributions and (m-1)/n B of sums; at most 2n messages.
//
// A bucket, numbered:
//  1. contributions leave, receives for the own segment's are posted
//  2. all contributions here: sum, copy to the neighbours, send the sum
//  3. own contributions sent: receives of foreign sums are posted where they were
//  4. a foreign sum here, and the neighbours' contributions sent: copy to the neighbours
//  5. nothing under way any more: this member is done
#include <algorithm>
#include <array>
#include <cstring>

#include "cohort/core/thread_team.hpp"
#include "comm/allreduce/all_reduce_sum.hpp"
#include "comm/allreduce/ring_between.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kPairLanes = 3;

struct PairLane {
    bool summed = false;
    bool sums_posted = false;
    bool told_sent = false;
    std::vector<RingRequest> contributions_out;
    std::vector<RingRequest> contributions_in;
    std::vector<RingRequest> sums_out;
    std::vector<RingRequest> sums_in;  ///< by position in fetched_; null: not under way
    std::vector<char> sums_taken;      ///< the same
    std::vector<float> landing;        ///< contributions of members elsewhere, segment by segment
};

class OrderedPairs final : public BetweenNodes {
public:
    OrderedPairs(const RingSetting& setting, const NodeGroups& groups, NodePart& node, int tag)
        : thread_(setting.thread),
          ranks_(setting.members),
          groups_(groups),
          node_(node),
          messages_(setting.thread, tag),
          members_(static_cast<int>(setting.members.size())),
          self_(setting.self) {
        const std::vector<int>& local = groups_.members[static_cast<std::size_t>(groups_.own)];
        for (int member = 0; member < members_; ++member) {
            if (std::find(local.begin(), local.end(), member) == local.end()) {
                elsewhere_.push_back(member);
                if (fetcher(groups_.own, member) == self_) {
                    fetched_.push_back(member);
                }
            }
        }
    }

    bool advance(std::uint64_t ordinal, std::int64_t arrived) override {
        if (ordinal != ordinal_) {
            ordinal_ = ordinal;
            first_ = 0;
            next_ = 0;
        }
        bool moved = false;
        while (next_ < arrived && next_ < first_ + kPairLanes) {
            start(next_++);
            moved = true;
        }
        for (std::int64_t bucket = first_; bucket < next_; ++bucket) {
            moved = step(bucket) || moved;
        }
        while (first_ < next_ && finished(lane(first_))) {
            node_.deliver(ordinal, first_, pieces(first_));
            ++first_;
            moved = true;
        }
        return moved;
    }

    [[nodiscard]] bool quiet() const override { return first_ == next_; }

private:
    PairLane& lane(std::int64_t bucket) {
        return lanes_[static_cast<std::size_t>(bucket % kPairLanes)];
    }
    static int tag(std::int64_t bucket) { return static_cast<int>(2 * (bucket % kPairLanes)); }

    /// Who of a node takes a foreign owner's sum.
    [[nodiscard]] int fetcher(int node, int owner) const {
        const auto& there = groups_.members[static_cast<std::size_t>(node)];
        return there[static_cast<std::size_t>(owner) % there.size()];
    }
    [[nodiscard]] FloatRange segment(std::int64_t bucket, int owner) const {
        const FloatRange range = node_.shape().buckets.range(bucket);
        const Part part = part_of(range.size(), owner, members_);
        return {range.begin + part.begin, range.begin + part.end};
    }
    [[nodiscard]] static std::uint64_t bytes(const FloatRange& range) {
        return static_cast<std::uint64_t>(range.size()) * sizeof(float);
    }
    [[nodiscard]] int rank(int member) const { return ranks_[static_cast<std::size_t>(member)]; }
    [[nodiscard]] float* own() const { return node_.buffer(node_.shape().self, ordinal_); }
    /// What a node delivers of a bucket: every segment, and every member's end of work.
    [[nodiscard]] std::int64_t pieces(std::int64_t bucket) const {
        const std::int64_t segments =
            std::min<std::int64_t>(members_, node_.shape().buckets.range(bucket).size());
        return segments + node_.shape().locals();
    }

    void start(std::int64_t bucket) {
        PairLane& lane = this->lane(bucket);
        lane.summed = false;
        lane.sums_posted = false;
        lane.told_sent = false;
        lane.sums_in.assign(fetched_.size(), nullptr);
        lane.sums_taken.assign(fetched_.size(), 0);
        const FloatRange mine = segment(bucket, self_);
        lane.landing.resize(elsewhere_.size() * static_cast<std::size_t>(mine.size()));
        float* landing = lane.landing.data();
        for (const int member : elsewhere_) {
            if (mine.size() > 0) {
                lane.contributions_in.push_back(
                    messages_.receive(landing, bytes(mine), rank(member), tag(bucket)));
                landing += mine.size();
            }
            const FloatRange theirs = segment(bucket, member);
            if (theirs.size() > 0) {
                lane.contributions_out.push_back(
                    messages_.send(own() + theirs.begin, bytes(theirs), rank(member), tag(bucket)));
            }
        }
    }

    bool step(std::int64_t bucket) {
        PairLane& lane = this->lane(bucket);
        bool moved = false;
        std::erase_if(lane.contributions_in,
                      [&](RingRequest& request) { return messages_.received(request); });
        if (!lane.summed && lane.contributions_in.empty() && node_.arrived(ordinal_, bucket)) {
            sum(lane, bucket);
            moved = true;
        }
        if (!lane.told_sent && all_ended(lane.contributions_out)) {
            lane.told_sent = true;
            node_.mark_sent(bucket);
            wake_neighbours();
            moved = true;
        }
        if (lane.told_sent && !lane.sums_posted) {
            post_sums(lane, bucket);
        }
        return (lane.sums_posted && node_.all_sent(ordinal_, bucket) && take_sums(lane, bucket)) ||
               moved;
    }

    void wake_neighbours() {
        for (const int member : node_.shape().local) {
            if (member != self_) {
                thread_.wake(rank(member));
            }
        }
    }

    void sum(PairLane& lane, std::int64_t bucket) {
        lane.summed = true;
        const FloatRange mine = segment(bucket, self_);
        if (mine.size() == 0) {
            return;
        }
        std::vector<const float*> inputs(static_cast<std::size_t>(members_));
        const auto& local = node_.shape().local;
        for (std::size_t i = 0; i < local.size(); ++i) {
            inputs[static_cast<std::size_t>(local[i])] =
                node_.buffer(static_cast<int>(i), ordinal_) + mine.begin;
        }
        const float* landing = lane.landing.data();
        for (const int member : elsewhere_) {
            inputs[static_cast<std::size_t>(member)] = landing;
            landing += mine.size();
        }
        sum_into(own() + mine.begin, inputs, static_cast<std::size_t>(mine.size()));
        copy_to_neighbours(mine);
        for (int node = 0; node < groups_.count(); ++node) {
            if (node != groups_.own) {
                lane.sums_out.push_back(messages_.send(
                    own() + mine.begin, bytes(mine), rank(fetcher(node, self_)), tag(bucket) + 1));
            }
        }
        node_.deliver(ordinal_, bucket, pieces(bucket));
    }

    void copy_to_neighbours(const FloatRange& range) {
        for (int i = 0; i < node_.shape().locals(); ++i) {
            if (i != node_.shape().self) {
                std::memcpy(node_.buffer(i, ordinal_) + range.begin, own() + range.begin,
                            bytes(range));
            }
        }
    }

    void post_sums(PairLane& lane, std::int64_t bucket) {
        lane.sums_posted = true;
        for (std::size_t i = 0; i < fetched_.size(); ++i) {
            const FloatRange range = segment(bucket, fetched_[i]);
            if (range.size() == 0) {
                lane.sums_taken[i] = 1;
                continue;
            }
            lane.sums_in[i] = messages_.receive(own() + range.begin, bytes(range),
                                                rank(fetched_[i]), tag(bucket) + 1);
        }
    }

    bool take_sums(PairLane& lane, std::int64_t bucket) {
        bool moved = false;
        for (std::size_t i = 0; i < fetched_.size(); ++i) {
            if (lane.sums_taken[i] == 0 && messages_.received(lane.sums_in[i])) {
                copy_to_neighbours(segment(bucket, fetched_[i]));
                lane.sums_taken[i] = 1;
                node_.deliver(ordinal_, bucket, pieces(bucket));
                moved = true;
            }
        }
        return moved;
    }

    bool all_ended(std::vector<RingRequest>& requests) {
        std::erase_if(requests, [this](RingRequest& request) { return messages_.ended(request); });
        return requests.empty();
    }

    bool finished(PairLane& lane) {
        return lane.summed && lane.told_sent && lane.sums_posted && all_ended(lane.sums_out) &&
               std::all_of(lane.sums_taken.begin(), lane.sums_taken.end(),
                           [](char taken) { return taken != 0; });
    }

    CommThread& thread_;
    std::vector<int> ranks_;
    NodeGroups groups_;
    NodePart& node_;
    RingMessages messages_;
    int members_;
    int self_;
    std::vector<int> elsewhere_;  ///< members on other nodes
    std::vector<int> fetched_;    ///< of them those whose sums this member takes for its node
    std::uint64_t ordinal_ = 0;
    std::int64_t first_ = 0;  ///< buckets from here to next_ are under way
    std::int64_t next_ = 0;
    std::array<PairLane, kPairLanes> lanes_;
};

}  // namespace

std::unique_ptr<BetweenNodes> make_ordered_pairs(const RingSetting& setting,
                                                 const NodeGroups& groups, NodePart& node,
                                                 int tag) {
    return std::make_unique<OrderedPairs>(setting, groups, node, tag);
}

}  // namespace cohort
