#pragma once

#include <string_view>
#include <vector>

namespace cohort {

/// Way of a job's gradients to its servers: every node sends the sum of its workers' pushes to a
/// parent, which is another node or the servers. A node with children, a head, adds their sums to
/// its own. Sums travel in pieces, so that a head passes one on while the next one is in flight.
class PushTree {
public:
    static constexpr int kServers = -1;
    static constexpr int kNobody = -2;

    /// Flat: all nodes send to the servers, and workers get parameters from them.
    explicit PushTree(int nodes = 0);
    /// @param parents [nodes]  @param pieces >= 1  @param down  parameters come down the same tree:
    /// once to every node, which passes them on to its workers and children
    /// Errors: UsageError naming a node whose parent does not exist or that does not reach the
    /// servers.
    PushTree(std::vector<int> parents, int pieces, bool down);

    [[nodiscard]] int nodes() const noexcept { return static_cast<int>(parents_.size()); }
    [[nodiscard]] const std::vector<int>& parents() const noexcept { return parents_; }
    /// Every node is behind its parent.
    [[nodiscard]] const std::vector<int>& from_the_top() const noexcept { return order_; }
    [[nodiscard]] int pieces() const noexcept { return pieces_; }
    [[nodiscard]] bool down() const noexcept { return down_; }
    [[nodiscard]] bool flat() const;
    /// Nodes on the longest way to the servers; 1: no node has a parent.
    [[nodiscard]] int levels() const;

    /// Way of an update to which only some nodes contribute: where each node's sum goes, kNobody
    /// for a node that sends none. A head without a part passes sums on when it has two or more;
    /// one sum goes past it. So do all sums below a node that is not live.
    /// @param parts, live [nodes]
    [[nodiscard]] std::vector<int> route(const std::vector<bool>& parts,
                                         const std::vector<bool>& live = {}) const;

    friend bool operator==(const PushTree&, const PushTree&) = default;

private:
    std::vector<int> parents_;
    std::vector<int> order_;
    int pieces_ = 1;
    bool down_ = false;
};

/// What a round of pushes meets on its way: all nodes' sums to the servers, then parameters back.
struct TreeCosts {
    struct Node {
        double up = 0;    ///< bytes/s that its card is predicted to have left for sending
        double down = 0;  ///< the same for receiving
        int workers = 0;  ///< that push; 0: the node has no part in the tree
        int servers = 0;  ///< a node with servers sends to all servers itself, and is no head
    };
    std::vector<Node> nodes;
    double bytes = 0;  ///< of a push
    double latency_s = 0;
    double sum_s = 0;         ///< to read or write a push once, by the thread that sums on a node
    double server_sum_s = 0;  ///< that an update grows by with every sum that the servers get
    double local_s = 0;       ///< to copy the parameters within a node
};

/// Pieces that a push of so many bytes is cut into, at most: up to 16, of 1 MiB or more.
[[nodiscard]] int most_pieces(double bytes);

/// Seconds of a round. With p = bytes / C for C pieces, w workers on a node, f children of it, the
/// node's spare rates u (out) and d (in), k nodes that send to servers, which together receive at
/// D and send at U (equal shards: the slowest card per shard sets the pace), latency l:
///   receiving  r(v) = max(f p / d, max over children p / u),  r(servers) = max(k p / D, ...)
///   summing    c(v) = (w + f + 1) p sum_s / bytes, while the piece is sent; 0 for a single push
///              to the servers
///   level      t(v) = max(c(v), r(parent)) + l
///   up         (longest sum of t on a way) + (C - 1) max t + k server_sum_s
///   down       the same with s(v) = max(f p / u, max over children p / d), s(servers) from U;
///              and local_s / C; without the tree, where all workers pull: (sum of w) bytes / U + l
/// Store-and-forward is C = 1. In a chain of n nodes up is (n + C - 1) (p / d + l).
[[nodiscard]] double round_seconds(const PushTree& tree, const TreeCosts& costs);

/// The tree with the shortest round; flat unless another one is quicker by 2 %. Heads are nodes
/// with the most spare rate; for each of some bounds on the time of a level, a head gets as many
/// children as it can serve within the bound, and the bound with the shortest round counts. Up to
/// 32 nodes the best tree is then improved by moving and swapping nodes. O(n log n) for a bound,
/// some hundred bounds. Source: pipelined trees as in Sanders, Speck, Traeff, "Two-tree algorithms
/// for full bandwidth broadcast, reduction and scan", Parallel Computing 35 (2009), section 2; here
/// with unequal links.
[[nodiscard]] PushTree build_push_tree(const TreeCosts& costs);

/// Keeps a tree while the forecast of the cards holds: for each card the mean of what it had left,
/// of which the newest number is kNewest.
class PushTreePlanner {
public:
    static constexpr double kNewest = 0.5;
    static constexpr double kMargin = 0.2;  ///< of a card's rate

    /// Builds another tree when the forecast of a card differs by more than the margin from what
    /// the tree in use was built for. @param now  rates as they are at present
    /// @return whether the tree in use is another one now
    bool update(const TreeCosts& now);
    [[nodiscard]] const PushTree& tree() const noexcept { return tree_; }

private:
    PushTree tree_;
    TreeCosts forecast_;
    TreeCosts built_for_;
};

/// What --push-tree says.
struct PushTreeChoice {
    enum class Kind { kOff, kAuto, kGroups };
    Kind kind = Kind::kOff;
    std::vector<std::vector<int>> groups;  ///< of nodes; the first of each is the head
    [[nodiscard]] bool on() const noexcept { return kind != Kind::kOff; }
};

/// "off", "auto", or groups of nodes as "0,1,2/3,4": the first of each sums for the others, as in
/// STAR's code. Errors: UsageError for an empty group, a word that is no number, a node that is
/// listed twice.
[[nodiscard]] PushTreeChoice parse_push_tree(std::string_view text);
/// The tree of groups, whole pushes up and parameters straight down as in STAR's code; flat without
/// groups. @param workers [nodes]  Errors: UsageError for a node that is unknown or has none.
[[nodiscard]] PushTree tree_of_groups(const PushTreeChoice& choice,
                                      const std::vector<int>& workers);

}  // namespace cohort
