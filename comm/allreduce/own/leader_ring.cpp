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
//
// With Wire::kBf16 chunks travel rounded and sums stay f32. A leader rounds every element once per
// round, when it first sends it: a partial sum, or the sum, which it then takes over rounded, as
// all others receive it. So all members have the same bits. What a leader rounds away it adds at
// the same place in the next round, so that over rounds nothing is lost:
//   sums of all rounds + rests of all leaders = sum of all contributions.
// The alternative, every node sends its contribution rounded to the owner of a segment, rounds as
// often, contributions in place of partial sums; but there every pair of nodes exchanges messages,
// where a node of a ring has two neighbours.
#include <algorithm>
#include <array>
#include <atomic>

#include "cohort/core/thread_team.hpp"
#include "comm/allreduce/all_reduce_sum.hpp"
#include "comm/allreduce/own/message_stream.hpp"
#include "comm/allreduce/own/shared_round.hpp"
#include "core/bf16.hpp"

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
    std::vector<float> landing;              ///< kLeaderWindow chunks, for partial sums
    std::size_t summed = 0;                  ///< pieces from here to `scatter` are the sum
    std::int64_t begin = 0;                  ///< of the bucket in the buffer
    std::vector<std::uint16_t> rounded_in;   ///< kBf16: kLeaderWindow chunks
    std::vector<std::uint16_t> rounded_out;  ///< the same

    [[nodiscard]] bool done() const {
        return bucket >= 0 && complete == pieces.size() && sent == to_send;
    }
};

/// What a leader's rounding leaves, at the places of its buffer.
class LeaderRests {
public:
    LeaderRests(Wire wire, std::int64_t floats) : rounds_(wire == Wire::kBf16) {
        for (std::vector<float>& rest : rests_) {
            rest.resize(rounds_ ? static_cast<std::size_t>(floats) : 0);
        }
    }
    /// Chunks travel rounded.
    [[nodiscard]] bool rounds() const noexcept { return rounds_; }
    [[nodiscard]] std::uint64_t bytes(const FloatRange& piece) const noexcept {
        return rounds_ ? piece.bytes() / 2 : piece.bytes();
    }
    /// From any thread, before the next round.
    void set(RoundRest rest) noexcept { last_.store(rest); }
    /// A round begins: the rest of the one before is added in it, or that which it had added.
    void begin_round() {
        const RoundRest rest = last_.exchange(RoundRest::kCarried);
        if (rest == RoundRest::kCarried) {
            std::swap(rests_[0], rests_[1]);
        } else if (rest == RoundRest::kForgotten) {
            std::ranges::fill(rests_[0], 0.0F);
        }
    }
    /// @param at  place of the values; once per place and round
    void round(std::span<const float> values, std::int64_t at, std::uint16_t* to) {
        narrow_with_rest(values, rests_[0].data() + at, rests_[1].data() + at, to);
    }

private:
    bool rounds_;
    std::atomic<RoundRest> last_{RoundRest::kCarried};  ///< of the round before
    std::array<std::vector<float>, 2> rests_;           ///< added in this round, left by it
};

class LeaderRing final : public InterNodeReducer {
public:
    explicit LeaderRing(SharedRound& round)
        : node_(round.node),
          messages_(round.setting.comm, round.tag),
          nodes_(round.groups.count()),
          own_(round.groups.own),
          left_(leader(round, own_ + nodes_ - 1)),
          right_(leader(round, own_ + 1)),
          rests_(round.setting.wire, round.setting.buckets.floats) {}

    bool advance(std::uint64_t ordinal, std::int64_t) override {
        if (ordinal != ordinal_) {
            ordinal_ = ordinal;
            next_start_ = 0;
            next_publish_ = 0;
            rests_.begin_round();
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

    void set_rest(RoundRest rest) override { rests_.set(rest); }

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
        lane.begin = range.begin;
        lane.landing.resize(rests_.rounds() ? 0 : kLeaderWindow * kChunkFloats);
        lane.rounded_in.resize(rests_.rounds() ? kLeaderWindow * kChunkFloats : 0);
        lane.rounded_out.resize(lane.rounded_in.size());
        lane.pieces.clear();
        for (int step = -1; step <= 2 * nodes_ - 3; ++step) {
            if (step == nodes_ - 1) {
                lane.scatter = lane.pieces.size();
            }
            if (step == 0) {
                lane.complete = lane.pieces.size();
            }
            if (step == nodes_ - 2) {
                lane.summed = lane.pieces.size();
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

    template <class Number>
    static Number* slot(std::vector<Number>& chunks, std::size_t piece) {
        return chunks.data() + piece % kLeaderWindow * kChunkFloats;
    }

    bool post_receives(LeaderLane& lane, int tag) {
        bool moved = false;
        while (lane.posted < lane.pieces.size() && lane.receives.size() < kLeaderWindow) {
            const FloatRange piece = lane.pieces[lane.posted];
            const bool partial = lane.posted < lane.scatter;
            if (!partial && lane.sent <= lane.posted - lane.scatter) {
                break;  // its partial sum is still being sent from there
            }
            if (rests_.rounds()) {
                lane.receives.push_back(messages_.receive(slot(lane.rounded_in, lane.posted),
                                                          rests_.bytes(piece), left_, tag));
            } else {
                float* to = partial ? slot(lane.landing, lane.posted) : lane.data + piece.begin;
                lane.receives.push_back(messages_.receive(to, piece.bytes(), left_, tag));
            }
            ++lane.posted;
            moved = true;
        }
        return moved;
    }

    /// The next piece is received.
    void take(LeaderLane& lane) const {
        const FloatRange piece = lane.pieces[lane.complete];
        const std::span<float> to = floats_of(lane, piece);
        const bool partial = lane.complete < lane.scatter;
        if (rests_.rounds() && partial) {
            add_bf16(slot(lane.rounded_in, lane.complete), to);
        } else if (rests_.rounds()) {
            widen_bf16(slot(lane.rounded_in, lane.complete), to);
        } else if (partial) {
            add_into(to.data(), slot(lane.landing, lane.complete), to.size());
        }
        ++lane.complete;
    }

    static std::span<float> floats_of(const LeaderLane& lane, const FloatRange& piece) {
        return {lane.data + piece.begin, static_cast<std::size_t>(piece.size())};
    }

    /// What leaves of the next piece to be sent.
    const void* leaving(LeaderLane& lane) {
        const FloatRange piece = lane.pieces[lane.started];
        const std::span<float> values = floats_of(lane, piece);
        if (!rests_.rounds()) {
            return values.data();
        }
        std::uint16_t* const to = slot(lane.rounded_out, lane.started);
        if (lane.started >= lane.scatter) {
            narrow_to_bf16(values, to);  // it was received rounded
            return to;
        }
        rests_.round(values, lane.begin + piece.begin, to);
        if (lane.started >= lane.summed) {
            widen_bf16(to, values);
        }
        return to;
    }

    bool start_sends(LeaderLane& lane, int tag) {
        bool moved = false;
        while (lane.started < std::min(lane.complete, lane.to_send) &&
               lane.sends.size() < kLeaderWindow) {
            const FloatRange piece = lane.pieces[lane.started];
            lane.sends.push_back(messages_.send(leaving(lane), rests_.bytes(piece), right_, tag));
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
    LeaderRests rests_;
};

}  // namespace

std::unique_ptr<InterNodeReducer> make_leader_ring(SharedRound& round) {
    return std::make_unique<LeaderRing>(round);
}

}  // namespace cohort
