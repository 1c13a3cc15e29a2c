#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "comm/allreduce/ring_engine.hpp"
#include "comm/world/comm_thread.hpp"

namespace cohort {

/// What a member tells the others while an exchange is being made. Travels as its bytes.
struct SetUpRecord {
    std::int32_t collective = 0;   ///< proposed number, see CommThread::last_collective
    std::int32_t descriptor = -1;  ///< of the memory that it created for its node
    std::int64_t floats = 0;
    std::int64_t bucket_floats = 0;
    std::int64_t algorithm = 0;     ///< AllReduceAlgorithm that the options ask for
    double seconds = 0;             ///< a measurement; with an error: after which it came
    std::array<char, 256> error{};  ///< why it cannot take part; empty: it can
    std::array<char, 128> id{};     ///< of a communicator of devices, from the first member
    std::array<char, 128> place{};  ///< of its device; empty: none that can take part

    void set_error(const char* text) noexcept;
    void set_id(std::string_view bytes) noexcept;
    void set_place(std::string_view text) noexcept;
};

/// The members' records in their order, after all have come. Collective over the members, blocking,
/// a named wait. Cost: 2 (n-1) small messages. Errors: RingBroken.
[[nodiscard]] std::vector<SetUpRecord> gather_records(const RingSetting& setting,
                                                      const SetUpRecord& own);

/// Two members, indices, whose devices lie in one place: the same, on one node.
[[nodiscard]] bool share_place(const RingSetting& setting, const std::vector<SetUpRecord>& records,
                               std::size_t one, std::size_t other);

/// Throws the DeviceError that came first, with its member's rank; the same on all.
void check_records(const RankMap& map, const std::vector<int>& members,
                   const std::vector<SetUpRecord>& records);

}  // namespace cohort
