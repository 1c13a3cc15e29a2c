#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort {

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
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(slots_.size()));
            slots_.emplace_back();
        }
        const std::uint32_t index = free_.back();
        free_.pop_back();
        return ++slots_[index].generation << kIndexBits | index;
    }
    /// @param id of a value that has not been released
    void release(Id id) {
        ++slots_[index_of(id)].generation;
        free_.push_back(index_of(id));
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
    [[nodiscard]] std::size_t size() const noexcept { return slots_.size() - free_.size(); }

private:
    static constexpr int kIndexBits = 24;
    struct Slot {
        std::uint64_t generation = 0;  ///< odd: taken
        T value{};
    };

    [[nodiscard]] bool has(Id id) const noexcept {
        return id != 0 && index_of(id) < slots_.size() &&
               slots_[index_of(id)].generation == id >> kIndexBits;
    }

    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
};

}  // namespace cohort
