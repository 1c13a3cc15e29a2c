#include "train/protocol/lease_codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr std::size_t kHead = 4;
constexpr std::size_t kSlice = 3;
constexpr std::int64_t kMostNumber = std::int64_t{1} << 53;

}  // namespace

std::vector<std::int64_t> encode_lease_state(const LeaseState& state) {
    std::vector<std::int64_t> numbers{state.epoch, state.position, state.applied,
                                      static_cast<std::int64_t>(state.next_id)};
    for (const LeaseSlice& slice : state.pending) {
        numbers.insert(numbers.end(), {slice.epoch, slice.position, slice.count});
    }
    return numbers;
}

LeaseState decode_lease_state(const std::vector<std::int64_t>& numbers) {
    if (numbers.size() < kHead || (numbers.size() - kHead) % kSlice != 0) {
        fail<FileError>({.where = "checkpoint /leases",
                         .what = "the data position has the wrong length",
                         .expected = "4 + 3 n numbers",
                         .got = std::to_string(numbers.size())});
    }
    const auto wrong = std::find_if(numbers.begin(), numbers.end(), [](std::int64_t number) {
        return number < 0 || number > kMostNumber;
    });
    if (wrong != numbers.end()) {
        fail<FileError>({.where = "checkpoint /leases",
                         .what = "the data position has a number that no run reaches",
                         .expected = fmt::format("0 to {}", kMostNumber),
                         .got = std::to_string(*wrong)});
    }
    LeaseState state{.epoch = static_cast<std::uint32_t>(numbers[0]),
                     .position = numbers[1],
                     .applied = numbers[2],
                     .next_id = static_cast<std::uint64_t>(numbers[3])};
    for (std::size_t i = kHead; i < numbers.size(); i += kSlice) {
        state.pending.push_back({.epoch = static_cast<std::uint32_t>(numbers[i]),
                                 .position = numbers[i + 1],
                                 .count = numbers[i + 2]});
    }
    return state;
}

}  // namespace cohort
