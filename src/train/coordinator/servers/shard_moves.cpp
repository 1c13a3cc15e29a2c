#include "train/coordinator/servers/shard_moves.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "data/text/csv_text.hpp"
#include "sched/plan/push_tree.hpp"
#include "train/coordinator/push_times.hpp"

namespace cohort {
namespace {

std::vector<int> nodes_of(const RankMap& map, int begin, int end) {
    std::vector<int> nodes;
    for (int rank = begin; rank < end; ++rank) {
        nodes.push_back(map.ranks.at(static_cast<std::size_t>(rank)).node);
    }
    return nodes;
}

bool has_tree(const JobContext& parts) {
    return parse_push_tree(parts.options.push_tree).on();
}

/// "1:3". Errors: UsageError.
std::vector<double> parse_shares(const std::string& text, int servers) {
    std::vector<double> shares;
    std::size_t at = 0;
    while (at <= text.size()) {
        const std::size_t end = std::min(text.find(':', at), text.size());
        const std::optional<double> share = parsed<double>(text.substr(at, end - at));
        if (!share || !(*share > 0)) {
            shares.clear();
            break;
        }
        shares.push_back(*share);
        at = end + 1;
    }
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    if (static_cast<int>(shares.size()) != servers || !std::isfinite(sum)) {
        fail<UsageError>(
            {.where = "request",
             .what = "these are no shares of the servers",
             .expected = fmt::format("capacity, or {} numbers above 0, as 1:3", servers),
             .got = "'" + text + "'"});
    }
    for (double& share : shares) {
        share /= sum;
    }
    return shares;
}

}  // namespace

ShardLayout ShardMoves::first_layout(const JobContext& parts, const RankMap& map) {
    return layout_of(0, cut_shards(parts.graph, initial_shares(parts.options.shards, map)));
}

ShardMoves::ShardMoves(CommContext comm, const JobContext& parts, TrainingSession& session,
                       PayloadRouter& payloads)
    : comm_(comm),
      parts_(parts),
      session_(session),
      payloads_(payloads),
      balancer_(nodes_of(comm.map, 0, comm.map.servers),
                nodes_of(comm.map, comm.map.servers, comm.map.size()),
                initial_shares(parts.options.shards, comm.map)),
      busy_s_(static_cast<std::size_t>(comm.map.servers), 0),
      automatic_(parts.options.rebalance_servers == RebalanceServers::kOn && !has_tree(parts) &&
                 session.load() != nullptr && comm.map.servers > 1) {
}

double ShardMoves::parameter_bytes() const {
    return static_cast<double>(parts_.graph.parameters().total()) * sizeof(float);
}

void ShardMoves::busy(int server, double busy_s) {
    double& known = busy_s_.at(static_cast<std::size_t>(server));
    known = std::max(known, busy_s);
}

bool ShardMoves::updated() {
    if (wanted_ || session_.load() == nullptr) {
        return false;
    }
    const bool news = balancer_.went(session_.options().now().training_s,
                                     session_.engine().reference_batches(), busy_s_);
    if (news && automatic_) {
        wanted_ = balancer_.decide();
    }
    return wanted_.has_value();
}

bool ShardMoves::request(const std::string& words) {
    if (words.empty()) {
        answer_ = places();
        return false;
    }
    if (has_tree(parts_)) {
        fail<UsageError>({.where = "request",
                          .what = "shards do not move in a job with --push-tree",
                          .hint = "the job without --push-tree"});
    }
    if (session_.stopping()) {
        fail<UsageError>({.where = "request", .what = "training is over"});
    }
    if (wanted_) {
        fail<UsageError>({.where = "request", .what = "shards are being moved", .hint = "later"});
    }
    const bool capacity = words == "capacity";
    std::vector<double> shares =
        capacity ? balancer_.suited() : parse_shares(words, comm_.map.servers);
    automatic_ = capacity && session_.load() != nullptr;
    if (shares == balancer_.shares()) {
        answer_ = "the shards have these shares already\n";
        return false;
    }
    wanted_ = ShardBalancer::Resize{.shares = std::move(shares), .why = "as requested"};
    answer_ = fmt::format("shards of {:.3f} follow at the next fence{}\n",
                          fmt::join(wanted_->shares, ":"),
                          automatic_ ? "" : "; they stay until the next request");
    return true;
}

/// Each server: rank, host, share, bytes, and what it served per second while it was busy.
std::string ShardMoves::places() const {
    std::string text = fmt::format("layout {}, shards are resized {}\n", payloads_.layout().number,
                                   automatic_ ? "by measurements" : "on request only");
    const std::vector<double> whole_s = balancer_.measured_whole_s();
    const double moved = 2.0 * comm_.map.workers() * push_bytes(parts_);  // by a reference batch
    std::int64_t begin = 0;
    for (std::size_t server = 0; server < whole_s.size(); ++server) {
        const std::int64_t end = payloads_.layout().ends.at(server);
        const auto bytes = static_cast<double>(end - begin) * sizeof(float);
        const int rank = comm_.map.rank_of_server(static_cast<int>(server));
        fmt::format_to(
            std::back_inserter(text), "server {} ({}), node {}: {:.3f} of the parameters, {}, {}\n",
            server, comm_.map.describe(rank),
            comm_.map.ranks.at(static_cast<std::size_t>(rank)).node, bytes / parameter_bytes(),
            format_bytes(static_cast<std::uint64_t>(bytes)),
            whole_s[server] > 0
                ? format_bytes(static_cast<std::uint64_t>(moved / whole_s[server])) + "/s measured"
                : "not measured");
        begin = end;
    }
    return text;
}

void ShardMoves::begin() {
    begun_s_ = session_.options().now().training_s;
    next_ = layout_of(payloads_.layout().number + 1, cut_shards(parts_.graph, wanted_->shares));
    resharded_.clear();
    log_info("shards move: {}; shares {:.3f}", wanted_->why, fmt::join(wanted_->shares, ":"));
    send_servers(comm_, MessageKind::kReshard, next_);
}

bool ShardMoves::arrived(const ReshardedNote& note) {
    if (note.layout == next_.number) {
        resharded_.insert(note.server);
    }
    if (static_cast<int>(resharded_.size()) < comm_.map.servers || !wanted_) {
        return false;
    }
    payloads_.set_layout(next_);
    for (int worker = 0; worker < comm_.map.workers(); ++worker) {
        send_worker(comm_, worker, MessageKind::kReshard, next_);
    }
    const double stood_s = session_.options().now().training_s - begun_s_;
    balancer_.moved(*std::exchange(wanted_, std::nullopt), stood_s);
    if (session_.load() != nullptr) {
        session_.load()->forget_times();
    }
    log_info("shards have moved in {:.3f} s", stood_s);
    return true;
}

}  // namespace cohort
