#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sched/plan/push_tree.hpp"

namespace cohort {
namespace {

constexpr double kGain = 0.02;  ///< that another tree must be quicker by than the flat one
constexpr int kSearched = 32;   ///< nodes up to which single moves are tried
constexpr int kMostPieces = 16;
constexpr double kLeastPiece = 1 << 20;  ///< bytes

std::size_t slot_of(int node) {
    return static_cast<std::size_t>(node);
}

/// Seconds that servers take to receive or send a push's bytes once, at the pace of the card that
/// is slowest for what it holds.
double server_pass_s(const TreeCosts& costs, double TreeCosts::Node::*rate) {
    int servers = 0;
    double slowest = 0;
    for (const TreeCosts::Node& node : costs.nodes) {
        servers += node.servers;
        slowest = std::max(slowest, node.servers > 0 ? node.servers / (node.*rate) : 0.0);
    }
    return servers > 0 ? costs.bytes * slowest / servers : 0;
}

/// A tree while it is looked for, as parents by node with the order in which to go over them.
struct Draft {
    std::vector<int> parents;
    std::vector<int> order;  ///< parents first
};

/// Times of a round for any draft; the sums over servers are worked out once.
class RoundClock {
public:
    explicit RoundClock(const TreeCosts& costs)
        : costs_(costs),
          in_s_(server_pass_s(costs, &TreeCosts::Node::down)),
          out_s_(server_pass_s(costs, &TreeCosts::Node::up)) {
        for (const TreeCosts::Node& node : costs.nodes) {
            workers_ += node.workers;
        }
    }

    struct Round {
        double up = 0;
        double down = 0;  ///< by the tree
        double pull = 0;  ///< by every worker from the servers
        [[nodiscard]] bool comes_down() const noexcept { return down < pull; }
        [[nodiscard]] double best() const noexcept { return up + std::min(down, pull); }
    };

    Round round(const Draft& draft, int pieces) {
        const double piece = 1.0 / pieces;
        count(draft.parents);
        return {.up = pass(draft, piece, pieces, true) + top_ * costs_.server_sum_s,
                .down = pass(draft, piece, pieces, false) + piece * costs_.local_s,
                .pull = flat_pull_s()};
    }

private:
    /// What a node's card carries for others: links of children in the direction of the pass.
    void count(const std::vector<int>& parents) {
        children_.assign(parents.size(), 0);
        slowest_up_.assign(parents.size(), 0);
        slowest_down_.assign(parents.size(), 0);
        top_ = 0;
        top_up_ = top_down_ = 0;
        for (std::size_t node = 0; node < parents.size(); ++node) {
            const TreeCosts::Node& one = costs_.nodes[node];
            if (one.workers == 0) {
                continue;
            }
            const double up_s = costs_.bytes / one.up;
            const double down_s = costs_.bytes / one.down;
            if (parents[node] == PushTree::kServers) {
                ++top_;
                top_up_ = std::max(top_up_, up_s);
                top_down_ = std::max(top_down_, down_s);
            } else {
                const auto parent = slot_of(parents[node]);
                ++children_[parent];
                slowest_up_[parent] = std::max(slowest_up_[parent], up_s);
                slowest_down_[parent] = std::max(slowest_down_[parent], down_s);
            }
        }
    }

    double pass(const Draft& draft, double piece, int pieces, bool up) {
        const double top_s =
            up ? std::max(top_ * in_s_, top_up_) : std::max(top_ * out_s_, top_down_);
        reach_.assign(draft.parents.size(), 0);
        double longest = 0;
        double level = 0;
        for (const int index : draft.order) {
            const auto node = slot_of(index);
            const TreeCosts::Node& one = costs_.nodes[node];
            if (one.workers == 0) {
                continue;
            }
            const int parent = draft.parents[node];
            double link_s = top_s;
            if (parent != PushTree::kServers) {
                const auto to = slot_of(parent);
                const TreeCosts::Node& head = costs_.nodes[to];
                link_s = up ? std::max(children_[to] * costs_.bytes / head.down, slowest_up_[to])
                            : std::max(children_[to] * costs_.bytes / head.up, slowest_down_[to]);
            }
            const int terms = one.workers + children_[node];
            const bool straight = terms == 1 && parent == PushTree::kServers;  // nothing is summed
            const double sum_s = up && !straight ? (terms + 1) * costs_.sum_s : 0;
            const double here = std::max(link_s, sum_s) * piece + costs_.latency_s;
            level = std::max(level, here);
            reach_[node] = here + (parent == PushTree::kServers ? 0 : reach_[slot_of(parent)]);
            longest = std::max(longest, reach_[node]);
        }
        return longest + (pieces - 1) * level;
    }

    [[nodiscard]] double flat_pull_s() const {
        double longest = workers_ * out_s_;
        for (const TreeCosts::Node& node : costs_.nodes) {
            longest = std::max(longest, node.workers * costs_.bytes / node.down);
        }
        return longest + costs_.latency_s;
    }

    const TreeCosts& costs_;
    double in_s_;
    double out_s_;
    int workers_ = 0;
    int top_ = 0;
    double top_up_ = 0;
    double top_down_ = 0;
    std::vector<int> children_;
    std::vector<double> slowest_up_;
    std::vector<double> slowest_down_;
    std::vector<double> reach_;
};

/// Looks for the tree with the shortest round.
class TreeSearch {
public:
    explicit TreeSearch(const TreeCosts& costs)
        : costs_(costs), clock_(costs), most_pieces_(most_pieces(costs.bytes)) {
        for (int node = 0; node < static_cast<int>(costs.nodes.size()); ++node) {
            const TreeCosts::Node& one = costs.nodes[slot_of(node)];
            (one.servers == 0 && one.workers > 0 ? free_ : fixed_).push_back(node);
        }
        std::ranges::stable_sort(free_, [this](int a, int b) { return spare(a) > spare(b); });
    }

    PushTree find() {
        const PushTree flat(static_cast<int>(costs_.nodes.size()));
        const RoundClock::Round flat_round = clock_.round({flat.parents(), flat.from_the_top()}, 1);
        for (const int fan_in : bounds()) {
            for (const int top : bounds()) {
                const Draft draft = grow(fan_in, top);
                (void)consider(draft, 1);
                (void)consider(draft, most_pieces_);
            }
        }
        if (static_cast<int>(free_.size()) <= kSearched) {
            improve();
        }
        for (int pieces = most_pieces_ / 2; pieces > 1; pieces /= 2) {
            (void)consider(Draft(best_), pieces);
        }
        return best_s_ < (1 - kGain) * (flat_round.up + flat_round.pull)
                   ? PushTree(best_.parents, best_pieces_, best_down_)
                   : flat;
    }

private:
    /// A node's spare rate: a head receives as much as it sends when parameters come down.
    [[nodiscard]] double spare(int node) const {
        const TreeCosts::Node& one = costs_.nodes[slot_of(node)];
        return std::min(one.up, one.down);
    }

    /// 1, 2, 3, 4, 6, 8, 12 ... up to all nodes.
    [[nodiscard]] std::vector<int> bounds() const {
        const auto all = std::max(1, static_cast<int>(free_.size()));
        std::vector<int> some;
        for (int low = 1; low < all; low *= 2) {
            some.push_back(low);
            if (low > 1 && low / 2 * 3 < all) {
                some.push_back(low / 2 * 3);
            }
        }
        some.push_back(all);
        return some;
    }

    /// Level by level: the servers take `top` nodes, a card of median rate `fan_in` children, the
    /// others in proportion to their rates.
    [[nodiscard]] Draft grow(int fan_in, int top) const {
        Draft draft{.parents = std::vector<int>(costs_.nodes.size(), PushTree::kServers),
                    .order = fixed_};
        const double median = free_.empty() ? 1 : spare(free_[free_.size() / 2]);
        std::size_t placed = std::min(free_.size(), static_cast<std::size_t>(top));
        draft.order.insert(draft.order.end(), free_.begin(),
                           free_.begin() + static_cast<std::ptrdiff_t>(placed));
        for (std::size_t head = 0; head < placed && placed < free_.size(); ++head) {
            const double share = fan_in * spare(free_[head]) / median;
            const auto room = static_cast<std::size_t>(
                std::min(std::floor(share + 1e-9), static_cast<double>(free_.size() - placed)));
            const bool last = head + 1 == placed && room == 0;  // somebody must carry the rest
            const std::size_t end = placed + (last ? 1 : room);
            for (; placed < end; ++placed) {
                draft.parents[slot_of(free_[placed])] = free_[head];
                draft.order.push_back(free_[placed]);
            }
        }
        return draft;
    }

    bool consider(const Draft& draft, int pieces) {
        const RoundClock::Round round = clock_.round(draft, pieces);
        if (round.best() >= best_s_ * (1 - 1e-9)) {
            return false;
        }
        best_ = draft;
        best_s_ = round.best();
        best_pieces_ = pieces;
        best_down_ = round.comes_down();
        return true;
    }

    /// The order of a changed draft; empty: it has a circle.
    [[nodiscard]] std::vector<int> order_of(const std::vector<int>& parents) const {
        std::vector<int> order = fixed_;
        std::vector<bool> placed(parents.size(), false);
        std::vector<int> way;
        for (const int node : free_) {
            way.clear();
            for (int at = node; at != PushTree::kServers && !placed[slot_of(at)];
                 at = parents[slot_of(at)]) {
                if (way.size() == free_.size()) {
                    return {};
                }
                way.push_back(at);
            }
            for (; !way.empty(); way.pop_back()) {
                placed[slot_of(way.back())] = true;
                order.push_back(way.back());
            }
        }
        return order;
    }

    bool try_parents(std::vector<int> parents) {
        std::vector<int> order = order_of(parents);
        return !order.empty() && consider({std::move(parents), std::move(order)}, best_pieces_);
    }

    /// Another parent for one node, or two nodes in each other's place, while that helps.
    void improve() {
        for (bool better = true; better;) {
            better = false;
            for (const int node : free_) {
                better = try_parent(node, PushTree::kServers) || better;
                for (const int other : free_) {
                    better = (other != node && try_parent(node, other)) || better;
                    better = (other > node && try_parents(swapped(node, other))) || better;
                }
            }
        }
    }

    bool try_parent(int node, int parent) {
        std::vector<int> parents = best_.parents;
        parents[slot_of(node)] = parent;
        return try_parents(std::move(parents));
    }

    [[nodiscard]] std::vector<int> swapped(int a, int b) const {
        const auto other = [a, b](int node) { return node == a ? b : node == b ? a : node; };
        std::vector<int> parents(best_.parents.size());
        for (int node = 0; node < static_cast<int>(parents.size()); ++node) {
            parents[slot_of(other(node))] = other(best_.parents[slot_of(node)]);
        }
        return parents;
    }

    const TreeCosts& costs_;
    RoundClock clock_;
    std::vector<int> free_;   ///< nodes that may be heads or children, most spare rate first
    std::vector<int> fixed_;  ///< the others
    int most_pieces_;
    Draft best_;
    double best_s_ = std::numeric_limits<double>::infinity();
    int best_pieces_ = 1;
    bool best_down_ = false;
};

bool differs(double now, double then) {
    return std::abs(now - then) > PushTreePlanner::kMargin * then;
}

}  // namespace

int most_pieces(double bytes) {
    int pieces = 1;
    while (pieces < kMostPieces && bytes >= 2 * pieces * kLeastPiece) {
        pieces *= 2;
    }
    return pieces;
}

double round_seconds(const PushTree& tree, const TreeCosts& costs) {
    const RoundClock::Round round =
        RoundClock(costs).round({tree.parents(), tree.from_the_top()}, tree.pieces());
    return round.up + (tree.down() ? round.down : round.pull);
}

PushTree build_push_tree(const TreeCosts& costs) {
    return TreeSearch(costs).find();
}

bool PushTreePlanner::update(const TreeCosts& now) {
    const bool first = forecast_.nodes.size() != now.nodes.size();
    const std::vector<TreeCosts::Node> before = std::exchange(forecast_, now).nodes;
    for (std::size_t node = 0; node < before.size() && !first; ++node) {
        TreeCosts::Node& card = forecast_.nodes[node];
        card.up = before[node].up + kNewest * (card.up - before[node].up);
        card.down = before[node].down + kNewest * (card.down - before[node].down);
    }
    const auto holds = [](const TreeCosts::Node& card, const TreeCosts::Node& then) {
        return card.workers == then.workers && !differs(card.up, then.up) &&
               !differs(card.down, then.down);
    };
    if (std::ranges::equal(forecast_.nodes, built_for_.nodes, holds)) {
        return false;
    }
    built_for_ = forecast_;
    const PushTree last = std::exchange(tree_, build_push_tree(forecast_));
    return tree_ != last;
}

}  // namespace cohort
