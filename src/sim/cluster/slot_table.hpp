#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cohort {

/// Values with an index; a released index is used again.
template <class T>
class IndexPool {
public:
    [[nodiscard]] std::uint32_t take() {
        if (free_.empty()) {
            values_.emplace_back();
            return static_cast<std::uint32_t>(values_.size() - 1);
        }
        const std::uint32_t index = free_.back();
        free_.pop_back();
        return index;
    }
    void release(std::uint32_t index) { free_.push_back(index); }
    [[nodiscard]] T& operator[](std::uint32_t index) noexcept { return values_[index]; }
    [[nodiscard]] const T& operator[](std::uint32_t index) const noexcept { return values_[index]; }
    [[nodiscard]] std::size_t slots() const noexcept { return values_.size(); }
    /// Values that are taken.
    [[nodiscard]] std::size_t size() const noexcept { return values_.size() - free_.size(); }

private:
    std::vector<T> values_;
    std::vector<std::uint32_t> free_;
};

/// Values that come and go, each under an id that is never used twice: what an old id named is not
/// found. A slot is used again, with what its value holds (memory, too); the one that takes it
/// fills it in. References end with the next take().
template <class T>
class SlotTable {
public:
    using Id = std::uint64_t;  ///< 0: none
    static constexpr std::size_t kMostSlots = std::size_t{1} << 24;

    /// A free slot. Errors: none; at most kMostSlots at a time, which is the caller's to see to.
    [[nodiscard]] Id take() {
        const std::uint32_t index = slots_.take();
        return ++slots_[index].generation << kIndexBits | index;
    }
    /// @param id of a value that has not been released
    void release(Id id) {
        ++slots_[index_of(id)].generation;
        slots_.release(index_of(id));
    }
    /// @return null when it has been released
    [[nodiscard]] T* find(Id id) noexcept {
        return has(id) ? &slots_[index_of(id)].value : nullptr;
    }
    [[nodiscard]] const T* find(Id id) const noexcept {
        return has(id) ? &slots_[index_of(id)].value : nullptr;
    }
    /// By index_of(id).
    [[nodiscard]] T& operator[](std::uint32_t index) noexcept { return slots_[index].value; }
    [[nodiscard]] const T& operator[](std::uint32_t index) const noexcept {
        return slots_[index].value;
    }
    /// The id of what is in a slot now.
    [[nodiscard]] Id id_at(std::uint32_t index) const noexcept {
        return slots_[index].generation << kIndexBits | index;
    }
    [[nodiscard]] static std::uint32_t index_of(Id id) noexcept {
        return static_cast<std::uint32_t>(id & (kMostSlots - 1));
    }
    [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
    /// Of all values, by slot.
    [[nodiscard]] std::vector<Id> ids() const {
        std::vector<Id> found;
        for (std::uint32_t index = 0; index < slots_.slots(); ++index) {
            if (slots_[index].generation % 2 != 0) {
                found.push_back(id_at(index));
            }
        }
        return found;
    }

private:
    static constexpr int kIndexBits = 24;
    struct Slot {
        std::uint64_t generation = 0;  ///< odd: taken
        T value{};
    };

    [[nodiscard]] bool has(Id id) const noexcept {
        return id != 0 && index_of(id) < slots_.slots() &&
               slots_[index_of(id)].generation == id >> kIndexBits;
    }

    IndexPool<Slot> slots_;
};

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
        if (position < nodes_.size()) {
            nodes_[position].item = last.item;
            change(position, last.key, places);
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
