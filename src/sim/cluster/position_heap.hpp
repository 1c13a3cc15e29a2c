#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cohort {

/// A heap, smallest key first, whose items know where they are: any of them can be removed
/// or given another key. An item is an index into something of the caller's; `places(item)` is a
/// reference to where its position is kept, for which the heap alone writes. Four children per
/// node: a level less to load for each two that a heap of two would have.
/// Cost: O(log n) comparisons for each change, n items.
template <class Key>
class PositionHeap {
public:
    using Item = std::uint32_t;

    [[nodiscard]] bool empty() const noexcept { return nodes_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
    /// Of the smallest one. Not to be called when empty.
    [[nodiscard]] const Key& top_key() const noexcept { return nodes_.front().key; }
    [[nodiscard]] Item top() const noexcept { return nodes_.front().item; }
    [[nodiscard]] Item at(std::size_t position) const noexcept { return nodes_[position].item; }

    template <class Places>
    void push(const Key& key, Item item, Places&& places) {
        nodes_.push_back({key, item});
        up(nodes_.size() - 1, places);
    }
    /// Gives the item at a position another key.
    template <class Places>
    void change(std::size_t position, const Key& key, Places&& places) {
        const bool earlier = key < nodes_[position].key;
        nodes_[position].key = key;
        if (earlier) {
            up(position, places);
        } else {
            down(position, places);
        }
    }
    template <class Places>
    void remove(std::size_t position, Places&& places) {
        const Node last = nodes_.back();
        nodes_.pop_back();
        if (position == nodes_.size()) {
            return;
        }
        const bool earlier = last.key < nodes_[position].key;
        nodes_[position] = last;
        if (earlier) {
            up(position, places);
        } else {
            down(position, places);
        }
    }

private:
    struct Node {
        Key key;
        Item item;
    };
    static constexpr std::size_t kChildren = 4;

    template <class Places>
    void put(std::size_t position, const Node& node, Places& places) {
        nodes_[position] = node;
        places(node.item) = static_cast<std::uint32_t>(position);
    }
    template <class Places>
    void up(std::size_t position, Places& places) {
        const Node node = nodes_[position];
        while (position > 0) {
            const std::size_t parent = (position - 1) / kChildren;
            if (!(node.key < nodes_[parent].key)) {
                break;
            }
            put(position, nodes_[parent], places);
            position = parent;
        }
        put(position, node, places);
    }
    template <class Places>
    void down(std::size_t position, Places& places) {
        const Node node = nodes_[position];
        const std::size_t count = nodes_.size();
        for (;;) {
            const std::size_t first = position * kChildren + 1;
            if (first >= count) {
                break;
            }
            const std::size_t end = first + kChildren < count ? first + kChildren : count;
            std::size_t best = first;
            for (std::size_t child = first + 1; child < end; ++child) {
                if (nodes_[child].key < nodes_[best].key) {
                    best = child;
                }
            }
            if (!(nodes_[best].key < node.key)) {
                break;
            }
            put(position, nodes_[best], places);
            position = best;
        }
        put(position, node, places);
    }

    std::vector<Node> nodes_;
};

}  // namespace cohort
