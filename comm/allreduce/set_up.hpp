#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "comm/allreduce/back_ends.hpp"

namespace cohort {

/// What a member tells the others while an all-reduce is set up. Travels as its bytes.
struct SetUpRecord {
    std::int32_t collective = 0;   ///< proposed number, see CollectiveContext::last_collective
    std::int32_t descriptor = -1;  ///< of the memory that it created for its node
    std::int64_t floats = 0;
    std::int64_t bucket_floats = 0;
    std::int64_t algorithm = 0;     ///< AllReduceAlgorithm that the options ask for
    std::int64_t known = -1;        ///< AllReduceAlgorithm that it has measured before
    double seconds = 0;             ///< a measurement; with an error: the time until it occurred
    std::array<char, 256> error{};  ///< why it cannot take part; empty: it can
    std::array<char, 128> id{};     ///< of a communicator of devices, from the first member
    std::array<char, 128> place{};  ///< of its device; empty: none that can take part

    void set_error(std::string_view text) noexcept { text.copy(error.data(), error.size() - 1); }
    void set_id(std::string_view bytes) noexcept { bytes.copy(id.data(), id.size()); }
    void set_place(std::string_view text) noexcept { text.copy(place.data(), place.size() - 1); }
};

/// With what all members must agree on, and the next number for this rank's collectives.
[[nodiscard]] SetUpRecord first_record(const AllReduceSetting& setting);

/// The members' records in their order, after all members have come. Collective over the members,
/// blocking, a named wait. Cost: 2 (n-1) small messages. Errors: RingBroken.
[[nodiscard]] std::vector<SetUpRecord> gather_records(const AllReduceSetting& setting,
                                                      const SetUpRecord& own);

/// Throws a UsageError when members' first records disagree; the same on all members.
void check_agreement(const AllReduceSetting& setting, const std::vector<SetUpRecord>& records);

/// gather_records(), then throws a UsageError when members disagree, else the DeviceError that
/// occurred first, with its member's rank; the same on all members.
std::vector<SetUpRecord> gather_checked(const AllReduceSetting& setting, const SetUpRecord& own);

/// The number of the new collective: the highest that a member has proposed.
[[nodiscard]] int take_collective(const AllReduceSetting& setting,
                                  const std::vector<SetUpRecord>& records);

/// Whether the devices of two members, given by index, are one device of one node.
[[nodiscard]] bool share_place(const AllReduceSetting& setting,
                               const std::vector<SetUpRecord>& records, std::size_t one,
                               std::size_t other);

}  // namespace cohort
