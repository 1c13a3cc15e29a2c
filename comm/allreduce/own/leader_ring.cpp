// The ring between nodes. Idea: a bucket is cut into as many segments as there are nodes; in n-1
// steps every leader passes a partial sum to its right neighbour and adds what comes from the left
// (reduce-scatter), in n-1 more the finished segments go round (all-gather). Segments travel in
// chunks that are passed on as they come, several buckets are in flight at once, so the link is
// busy without a pause. Cost per leader and bucket of B bytes: 2 (n-1)/n B sent and received, in
// 2 (n-1) chunks per segment at least; memory: kLeaderLanes * kLeaderWindow chunks. Source:
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
//
// A bucket's pieces, in the order in which a leader gets them: the chunks of its own segment, then
// the chunks received in step 0, 1, ... 2n-3. A chunk received in one step is sent in the next, so
// one list serves both: send number j may leave once piece j is complete. Every segment occurs once
// among the first `scatter` pieces and, but for one, once more after them; that second time its
// final value overwrites the partial sum sent before.
#include <algorithm>
#include <array>

#include "cohort/core/thread_team.hpp"
#include "comm/allreduce/all_reduce_sum.hpp"
#include "comm/allreduce/own/message_stream.hpp"
#include "comm/allreduce/own/shared_round.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kLeaderLanes = 3;
constexpr std::size_t kLeaderWindow = 4;
constexpr std::int64_t kChunkFloats = 64 << 10;

struct LeaderLane {
    std::int64_t bucket = -1;  ///< in flight, or done and not published; -1: none
    float* data = nullptr;
    std::vector<FloatRange> pieces;  ///< within the bucket
    std::size_t scatter = 0;         ///< pieces up to here are partial sums
    std::size_t to_send = 0;
    std::size_t complete = 0;  ///< pieces
    std::size_t posted = 0;    ///< pieces whose receive was posted
    std::size_t started = 0;
    std::size_t sent = 0;
    std::deque<MessageRequest> receives;
    std::deque<MessageRequest> sends;
    std::vector<float> landing;  ///< kLeaderWindow chunks, for partial sums

    [[nodiscard]] bool done() const {
        return bucket >= 0 && complete == pieces.size() && sent == to_send;
    }
};

class LeaderRing final : public InterNodeReducer {
public:
    explicit LeaderRing(SharedRound& round)
        : node_(round.node),
          messages_(round.setting.comm, round.tag),
          nodes_(round.groups.count()),
          own_(round.groups.own),
          left_(leader(round, own_ + nodes_ - 1)),
          right_(leader(round, own_ + 1)) {}

    bool advance(std::uint64_t ordinal, std::int64_t) override {
        if (ordinal != ordinal_) {
            ordinal_ = ordinal;
            next_start_ = 0;
            next_publish_ = 0;
        }
        const std::int64_t count = node_.shape().buckets.count();
        bool moved = false;
        while (next_start_ < count && next_start_ < next_publish_ + kLeaderLanes &&
               node_.buckets().summed(ordinal, next_start_)) {
            start(next_start_++);
            moved = true;
        }
        for (std::int64_t bucket = next_publish_; bucket < next_start_; ++bucket) {
            moved = step(bucket) || moved;
        }
        while (next_publish_ < next_start_ && lane(next_publish_).done()) {
            lane(next_publish_).bucket = -1;
            node_.publish(ordinal, next_publish_++);
        }
        return moved;
    }

    [[nodiscard]] bool quiet() const override {
        return std::ranges::all_of(lanes_, [](const LeaderLane& lane) { return lane.bucket < 0; });
    }

private:
    static int leader(const SharedRound& round, int node) {
        return round.setting.rank_of(round.groups.on(node % round.groups.count())[0]);
    }
    LeaderLane& lane(std::int64_t bucket) {
        return lanes_[static_cast<std::size_t>(bucket % kLeaderLanes)];
    }

    void start(std::int64_t bucket) {
        const FloatRange range = node_.shape().buckets.range(bucket);
        LeaderLane& lane = this->lane(bucket);
        lane.bucket = bucket;
        lane.data = node_.buffer(0, ordinal_) + range.begin;
        lane.landing.resize(kLeaderWindow * kChunkFloats);
        lane.pieces.clear();
        for (int step = -1; step <= 2 * nodes_ - 3; ++step) {
            if (step == nodes_ - 1) {
                lane.scatter = lane.pieces.size();
            }
            if (step == 0) {
                lane.complete = lane.pieces.size();
            }
            if (step == 2 * nodes_ - 3) {
                lane.to_send = lane.pieces.size();
            }
            append_chunks(lane, range.size(), (own_ - 1 - step + 2 * nodes_) % nodes_);
        }
        lane.posted = lane.complete;
        lane.started = 0;
        lane.sent = 0;
    }

    void append_chunks(LeaderLane& lane, std::int64_t floats, int segment) const {
        const Part part = part_of(floats, segment, nodes_);
        for (std::int64_t at = part.begin; at < part.end; at += kChunkFloats) {
            lane.pieces.push_back({at, std::min<std::int64_t>(part.end, at + kChunkFloats)});
        }
    }

    bool step(std::int64_t bucket) {
        LeaderLane& lane = this->lane(bucket);
        const int tag = static_cast<int>(bucket % kLeaderLanes);
        bool moved = take_sent(lane);
        moved = post_receives(lane, tag) || moved;
        while (!lane.receives.empty() && messages_.received(lane.receives.front())) {
            lane.receives.pop_front();
            take(lane);
            moved = true;
        }
        moved = post_receives(lane, tag) || moved;
        return start_sends(lane, tag) || moved;
    }

    bool take_sent(LeaderLane& lane) {
        bool moved = false;
        while (!lane.sends.empty() && messages_.ended(lane.sends.front())) {
            lane.sends.pop_front();
            ++lane.sent;
            moved = true;
        }
        return moved;
    }

    static float* landing(LeaderLane& lane, std::size_t piece) {
        return lane.landing.data() + piece % kLeaderWindow * kChunkFloats;
    }

    bool post_receives(LeaderLane& lane, int tag) {
        bool moved = false;
        while (lane.posted < lane.pieces.size() && lane.receives.size() < kLeaderWindow) {
            const FloatRange piece = lane.pieces[lane.posted];
            const bool partial = lane.posted < lane.scatter;
            if (!partial && lane.sent <= lane.posted - lane.scatter) {
                break;  // its partial sum is still being sent from there
            }
            float* to = partial ? landing(lane, lane.posted) : lane.data + piece.begin;
            lane.receives.push_back(messages_.receive(to, piece.bytes(), left_, tag));
            ++lane.posted;
            moved = true;
        }
        return moved;
    }

    /// The next piece is received.
    static void take(LeaderLane& lane) {
        const FloatRange piece = lane.pieces[lane.complete];
        if (lane.complete < lane.scatter) {
            add_into(lane.data + piece.begin, landing(lane, lane.complete),
                     static_cast<std::size_t>(piece.size()));
        }
        ++lane.complete;
    }

    bool start_sends(LeaderLane& lane, int tag) {
        bool moved = false;
        while (lane.started < std::min(lane.complete, lane.to_send) &&
               lane.sends.size() < kLeaderWindow) {
            const FloatRange piece = lane.pieces[lane.started];
            lane.sends.push_back(
                messages_.send(lane.data + piece.begin, piece.bytes(), right_, tag));
            ++lane.started;
            moved = true;
        }
        return moved;
    }

    NodeReducer& node_;
    MessageStream messages_;
    int nodes_;
    int own_;
    int left_;   ///< world rank
    int right_;  ///< world rank
    std::uint64_t ordinal_ = 0;
    std::int64_t next_start_ = 0;
    std::int64_t next_publish_ = 0;
    std::array<LeaderLane, kLeaderLanes> lanes_;
};

}  // namespace

std::unique_ptr<InterNodeReducer> make_leader_ring(SharedRound& round) {
    return std::make_unique<LeaderRing>(round);
}

}  // namespace cohort
