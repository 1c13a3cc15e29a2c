#include "sched/plan/push_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

std::size_t index_of(int node) {
    return static_cast<std::size_t>(node);
}

[[noreturn]] void refuse_groups(const std::string& what, const std::string& got) {
    fail<UsageError>({.where = "--push-tree",
                      .what = what,
                      .expected = "off, auto, or groups of nodes such as 0,1,2/3,4,5",
                      .got = got});
}

int node_in(std::string_view word, std::string_view group) {
    int node = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), node);
    if (error != std::errc() || end != word.data() + word.size() || node < 0) {
        refuse_groups("a group holds a word that is no node",
                      fmt::format("'{}' in '{}'", word, group));
    }
    return node;
}

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> words;
    for (std::size_t end = text.find(at); end != std::string_view::npos; end = text.find(at)) {
        words.push_back(text.substr(0, end));
        text.remove_prefix(end + 1);
    }
    words.push_back(text);
    return words;
}

}  // namespace

PushTree::PushTree(int nodes) : PushTree(std::vector<int>(index_of(nodes), kServers), 1, false) {
}

PushTree::PushTree(std::vector<int> parents, int pieces, bool down)
    : parents_(std::move(parents)), pieces_(pieces), down_(down) {
    std::vector<std::vector<int>> children(parents_.size());
    for (int node = 0; node < nodes(); ++node) {
        const int parent = parents_[index_of(node)];
        if (parent < kServers || parent >= nodes() || parent == node) {
            fail<UsageError>({.where = fmt::format("push tree, node {}", node),
                              .what = "its parent is no other node",
                              .got = std::to_string(parent)});
        }
        if (parent == kServers) {
            order_.push_back(node);
        } else {
            children[index_of(parent)].push_back(node);
        }
    }
    for (std::size_t next = 0; next < order_.size(); ++next) {
        const std::vector<int>& below = children[index_of(order_[next])];
        order_.insert(order_.end(), below.begin(), below.end());
    }
    if (order_.size() < parents_.size()) {
        std::vector<bool> reaches(parents_.size(), false);
        for (const int node : order_) {
            reaches[index_of(node)] = true;
        }
        fail<UsageError>({.where = "push tree",
                          .what = fmt::format("node {} does not reach the servers",
                                              std::ranges::find(reaches, false) - reaches.begin()),
                          .expected = "parents without a circle"});
    }
}

bool PushTree::flat() const {
    return !down_ && std::ranges::all_of(parents_, [](int one) { return one == kServers; });
}

int PushTree::levels() const {
    std::vector<int> depth(parents_.size(), 1);
    int most = 1;
    for (const int node : order_) {
        if (const int parent = parents_[index_of(node)]; parent != kServers) {
            depth[index_of(node)] = depth[index_of(parent)] + 1;
            most = std::max(most, depth[index_of(node)]);
        }
    }
    return most;
}

std::vector<int> PushTree::route(const std::vector<bool>& parts,
                                 const std::vector<bool>& live) const {
    std::vector<int> to(parents_.size(), kNobody);
    std::vector<std::vector<int>> senders(parents_.size());
    for (const int at : std::ranges::reverse_view(order_)) {
        const auto node = index_of(at);
        const bool here = live.empty() || live[node];
        std::vector<int> passed = std::exchange(senders[node], {});
        if (here && (parts[node] || passed.size() > 1)) {
            for (const int sender : passed) {
                to[index_of(sender)] = at;
            }
            passed = {at};
        }
        const int parent = parents_[node];
        for (const int sender : passed) {
            to[index_of(sender)] = parent;
        }
        if (parent != kServers) {
            std::vector<int>& above = senders[index_of(parent)];
            above.insert(above.end(), passed.begin(), passed.end());
        }
    }
    return to;
}

PushTreeChoice parse_push_tree(std::string_view text) {
    PushTreeChoice choice;
    if (text == "off") {
        return choice;
    }
    if (text == "auto") {
        choice.kind = PushTreeChoice::Kind::kAuto;
        return choice;
    }
    choice.kind = PushTreeChoice::Kind::kGroups;
    std::vector<int> listed;
    for (const std::string_view group : split(text, '/')) {
        if (group.empty()) {
            refuse_groups("a group is empty", fmt::format("'{}'", text));
        }
        std::vector<int>& nodes = choice.groups.emplace_back();
        for (const std::string_view word : split(group, ',')) {
            nodes.push_back(node_in(word, group));
            if (std::ranges::find(listed, nodes.back()) != listed.end()) {
                refuse_groups("a node is listed twice", fmt::format("node {}", nodes.back()));
            }
            listed.push_back(nodes.back());
        }
    }
    return choice;
}

PushTree tree_of_groups(const PushTreeChoice& choice, const std::vector<int>& workers) {
    std::vector<int> parents(workers.size(), PushTree::kServers);
    for (const std::vector<int>& group : choice.groups) {
        for (const int node : group) {
            if (index_of(node) >= workers.size() || workers[index_of(node)] == 0) {
                refuse_groups("a node is unknown or has no workers",
                              fmt::format("node {} of {}", node, workers.size()));
            }
            if (node != group.front()) {
                parents[index_of(node)] = group.front();
            }
        }
    }
    return {std::move(parents), 1, false};
}

}  // namespace cohort
