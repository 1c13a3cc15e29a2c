// The ordered form between nodes. Idea: member j owns segment j of a bucket. Every member sends
// its own contribution to that segment straight to the owner; the owner adds all of them in the
// order of the members, as one node does in its shared memory, and sends the sum to one member of
// each other node, which copies it to its neighbours. The bits do not depend on the placement of
// the ranks. Cost per member and bucket of B bytes, n members on m nodes of n/m each: sent and
// received (1 - 1/m) B of contributions and (m-1)/n B of sums; at most 2n messages.
//
// The steps of a bucket:
//  1. contributions leave, receives of the others' contributions to the own segment are posted
//  2. all contributions are received: sum, copy to the neighbours, send the sum
//  3. own contributions are sent: receives of foreign sums are posted in their place
//  4. a foreign sum is received, and the neighbours' contributions are sent: copy to the neighbours
//  5. nothing is in flight any more: this member is done
#include <algorithm>
#include <array>
#include <cstring>

#include "cohort/core/thread_team.hpp"
#include "comm/allreduce/all_reduce_sum.hpp"
#include "comm/allreduce/own/message_stream.hpp"
#include "comm/allreduce/own/shared_round.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kPairLanes = 3;

struct PairLane {
    bool summed = false;
    bool sums_posted = false;
    bool told_sent = false;
    std::vector<MessageRequest> contributions_out;
    std::vector<MessageRequest> contributions_in;
    std::vector<MessageRequest> sums_out;
    std::vector<MessageRequest> sums_in;  ///< by position in fetched_; null: not in flight
    std::vector<char> sums_taken;         ///< the same
    std::vector<float> landing;  ///< contributions of members elsewhere, segment by segment
};

class OrderedPairs final : public InterNodeReducer {
public:
    explicit OrderedPairs(SharedRound& round)
        : round_(round),
          setting_(round.setting),
          groups_(round.groups),
          node_(round.node),
          messages_(setting_.comm, round.tag) {
        const std::vector<int>& local = groups_.local();
        for (int member = 0; member < members(); ++member) {
            if (std::ranges::find(local, member) == local.end()) {
                elsewhere_.push_back(member);
                if (fetcher(groups_.own, member) == setting_.self) {
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

    /// The member of a node that receives a foreign owner's sum.
    [[nodiscard]] int fetcher(int node, int owner) const {
        const auto& there = groups_.on(node);
        return there[static_cast<std::size_t>(owner) % there.size()];
    }
    [[nodiscard]] FloatRange segment(std::int64_t bucket, int owner) const {
        const FloatRange range = node_.shape().buckets.range(bucket);
        const Part part = part_of(range.size(), owner, members());
        return {range.begin + part.begin, range.begin + part.end};
    }
    [[nodiscard]] int members() const { return static_cast<int>(setting_.members.size()); }
    [[nodiscard]] float* own() const { return node_.buffer(node_.shape().self, ordinal_); }
    /// The pieces of a bucket that a node delivers: every segment, and the end of work of every
    /// member.
    [[nodiscard]] std::int64_t pieces(std::int64_t bucket) const {
        const std::int64_t segments =
            std::min<std::int64_t>(members(), node_.shape().buckets.range(bucket).size());
        return segments + node_.shape().locals();
    }

    void start(std::int64_t bucket) {
        PairLane& lane = this->lane(bucket);
        lane.summed = false;
        lane.sums_posted = false;
        lane.told_sent = false;
        lane.sums_in.assign(fetched_.size(), nullptr);
        lane.sums_taken.assign(fetched_.size(), 0);
        const FloatRange mine = segment(bucket, setting_.self);
        lane.landing.resize(elsewhere_.size() * static_cast<std::size_t>(mine.size()));
        float* landing = lane.landing.data();
        for (const int member : elsewhere_) {
            if (mine.size() > 0) {
                lane.contributions_in.push_back(messages_.receive(
                    landing, mine.bytes(), setting_.rank_of(member), tag(bucket)));
                landing += mine.size();
            }
            const FloatRange theirs = segment(bucket, member);
            if (theirs.size() > 0) {
                lane.contributions_out.push_back(messages_.send(
                    own() + theirs.begin, theirs.bytes(), setting_.rank_of(member), tag(bucket)));
            }
        }
    }

    bool step(std::int64_t bucket) {
        PairLane& lane = this->lane(bucket);
        bool moved = false;
        std::erase_if(lane.contributions_in,
                      [&](MessageRequest& request) { return messages_.received(request); });
        if (!lane.summed && lane.contributions_in.empty() &&
            node_.buckets().arrived(ordinal_, bucket)) {
            sum(lane, bucket);
            moved = true;
        }
        if (!lane.told_sent && all_ended(lane.contributions_out)) {
            lane.told_sent = true;
            node_.buckets().mark_sent(bucket);
            round_.wake_neighbours();
            moved = true;
        }
        if (lane.told_sent && !lane.sums_posted) {
            post_sums(lane, bucket);
        }
        return (lane.sums_posted && node_.buckets().all_sent(ordinal_, bucket) &&
                take_sums(lane, bucket)) ||
               moved;
    }

    void sum(PairLane& lane, std::int64_t bucket) {
        lane.summed = true;
        const FloatRange mine = segment(bucket, setting_.self);
        if (mine.size() == 0) {
            return;
        }
        std::vector<const float*> inputs(static_cast<std::size_t>(members()));
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
                    own() + mine.begin, mine.bytes(),
                    setting_.rank_of(fetcher(node, setting_.self)), tag(bucket) + 1));
            }
        }
        node_.deliver(ordinal_, bucket, pieces(bucket));
    }

    void copy_to_neighbours(const FloatRange& range) {
        for (int i = 0; i < node_.shape().locals(); ++i) {
            if (i != node_.shape().self) {
                std::memcpy(node_.buffer(i, ordinal_) + range.begin, own() + range.begin,
                            range.bytes());
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
            lane.sums_in[i] = messages_.receive(own() + range.begin, range.bytes(),
                                                setting_.rank_of(fetched_[i]), tag(bucket) + 1);
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

    bool all_ended(std::vector<MessageRequest>& requests) {
        std::erase_if(requests,
                      [this](MessageRequest& request) { return messages_.ended(request); });
        return requests.empty();
    }

    bool finished(PairLane& lane) {
        return lane.summed && lane.told_sent && lane.sums_posted && all_ended(lane.sums_out) &&
               std::ranges::all_of(lane.sums_taken, [](char taken) { return taken != 0; });
    }

    SharedRound& round_;
    const AllReduceSetting& setting_;
    const NodeGroups& groups_;
    NodeReducer& node_;
    MessageStream messages_;
    std::vector<int> elsewhere_;  ///< members on other nodes
    std::vector<int> fetched_;    ///< of them, those whose sums this member receives for its node
    std::uint64_t ordinal_ = 0;
    std::int64_t first_ = 0;  ///< buckets from this one to next_ are in flight
    std::int64_t next_ = 0;
    std::array<PairLane, kPairLanes> lanes_;
};

}  // namespace

std::unique_ptr<InterNodeReducer> make_ordered_pairs(SharedRound& round) {
    return std::make_unique<OrderedPairs>(round);
}

}  // namespace cohort
